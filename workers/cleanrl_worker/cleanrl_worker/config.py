"""`CleanRLWorkerConfig`: the single source of truth for one run's parameters."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mosaic.workers import Problem

# Extras that the worker itself acts on. Any other is a flag of the script.
WORKER_EXTRAS = frozenset(
    {
        "mode",
        "cuda",
        "use_cuda",
        "tensorboard_dir",
        "tensorboard_enabled",
        "track_wandb",
        "wandb_project_name",
        "wandb_entity",
        "wandb_run_name",
        "wandb_api_key",
        "wandb_email",
        "wandb_use_vpn_proxy",
        "wandb_http_proxy",
        "wandb_https_proxy",
        "algo_params",
        "curriculum_schedule",
        "checkpoint_path",
        "policy_path",
        "fastlane_video_mode",
        "fastlane_slot",
        "fastlane_grid_limit",
        "capture_video",
        "eval_episodes",
        "eval_max_steps",
        "eval_sample",
        "gamma",
        "repeat",
        "requirements",
        "notes",
        "minimal_telemetry",
        "keep_checkpoints",
        "script_path",
    }
)


@dataclass(frozen=True)
class CleanRLWorkerConfig:
    """What one run is asked to do."""

    run_id: str
    algo: str
    env_id: str
    total_timesteps: int | None
    seed: int = 1
    extras: dict[str, Any] = field(default_factory=dict)
    worker_id: str | None = None
    raw: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> CleanRLWorkerConfig:
        """Read the nested (whole job) or the flat (worker's own fields) shape.

        Raises:
            ValueError: With a sentence, when a field has the wrong type.
        """
        nested = document.get("metadata", {}).get("worker", {}).get("config")
        fields = nested if isinstance(nested, dict) else document
        extras = fields.get("extras") or {}
        if not isinstance(extras, dict):
            raise ValueError(f"'extras' must be an object, not {extras!r}")
        return cls(
            run_id=str(fields.get("run_id") or "standalone"),
            algo=str(fields.get("algo") or ""),
            env_id=str(fields.get("env_id") or ""),
            total_timesteps=fields.get("total_timesteps"),
            seed=int(fields.get("seed", 1)),
            extras=dict(extras),
            worker_id=fields.get("worker_id"),
            raw=document,
        )

    @classmethod
    def from_file(cls, path: Path) -> CleanRLWorkerConfig:
        """Read a config file.

        Raises:
            ValueError: With a sentence, when it is no config.
        """
        try:
            document = json.loads(path.read_text())
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise ValueError(f"{path} is not valid JSON: {error}") from None
        if not isinstance(document, dict):
            raise ValueError(f"{path} must hold a JSON object")
        return cls.from_document(document)

    def with_overrides(self, **changes: Any) -> CleanRLWorkerConfig:
        """A copy with every given change that is not None; `extras` are merged."""
        extras = {**self.extras, **(changes.pop("extras", None) or {})}
        given = {name: value for name, value in changes.items() if value is not None}
        return replace(self, extras=extras, **given)

    @property
    def mode(self) -> str:
        """`train`, `resume_training`, `policy_eval`, `interactive` or `script`."""
        return str(self.extras.get("mode") or "train")

    @property
    def cuda(self) -> bool:
        """Whether a GPU is asked for."""
        return bool(self.extras.get("cuda") or self.extras.get("use_cuda"))

    def script_parameters(self) -> dict[str, Any]:
        """What the script is told: `algo_params` and every extra that is not the worker's."""
        parameters = dict(self.extras.get("algo_params") or {})
        own = {name: value for name, value in self.extras.items() if name not in WORKER_EXTRAS}
        return {name.replace("-", "_"): value for name, value in {**parameters, **own}.items()}


def problem(field_name: str, code: str, message: str) -> Problem:
    """A problem of a worker's own field."""
    return Problem(f"/metadata/worker/config/{field_name}", code, message)
