"""What a train form holds, and the configs it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from mosaic.config.secrets import looks_secret

_EXTRA_TEXTS = (
    "wandb_project_name",
    "wandb_entity",
    "wandb_run_name",
    "wandb_api_key",
    "wandb_email",
    "wandb_http_proxy",
    "wandb_https_proxy",
)


@dataclass
class TrainDraft:
    """The content of a train form; can be stored, restored, and turned into configs."""

    worker: str = "cleanrl"
    module: str = ""
    algo: str = "ppo"
    env_id: str = "CartPole-v1"
    run_name: str = ""
    seed: int = 1
    seeds: int = 1
    total_timesteps: int | None = None
    params: dict[str, Any] = field(default_factory=dict)
    cpus: int = 1
    gpu: bool = False
    wall_minutes: float | None = None
    tensorboard: bool = True
    keep_checkpoints: int = 3
    capture_video: bool = False
    fastlane_video_mode: str = "single"
    fastlane_grid_limit: int = 4
    track_wandb: bool = False
    wandb_use_vpn_proxy: bool = False
    wandb: dict[str, str] = field(default_factory=dict)
    requirements: list[str] = field(default_factory=lambda: ["base"])
    notes: str = ""
    tags: list[str] = field(default_factory=list)
    other_extras: dict[str, Any] = field(default_factory=dict)

    # ------------------------------------------------------------ configs

    def configs(self) -> list[dict[str, Any]]:
        """One TrainRunConfig document a seed."""
        return [self.config(self.seed + offset) for offset in range(max(1, self.seeds))]

    def config(self, seed: int) -> dict[str, Any]:
        """The TrainRunConfig document of one seed."""
        worker: dict[str, Any] = {"type": self.worker, "config": self._worker_config(seed)}
        if self.module:
            worker["module"] = self.module
        gpus = {"requested": 1, "mandatory": 1} if self.gpu else {"requested": 0, "mandatory": 0}
        return {
            "run_name": self.name_of(seed),
            "resources": {"gpus": gpus, "cpus": {"requested": self.cpus}},
            "limits": {"max_wallclock_minutes": self.wall_minutes},
            "artifacts": {
                "tensorboard": {"enabled": self.tensorboard},
                "wandb": {"enabled": self.track_wandb},
                "keep_checkpoints": self.keep_checkpoints,
            },
            "metadata": {"worker": worker, "tags": list(self.tags)},
        }

    def name_of(self, seed: int) -> str:
        """The run's name; with the seed where there are several."""
        if not self.run_name:
            return ""
        return f"{self.run_name}-s{seed}" if self.seeds > 1 else self.run_name

    def _worker_config(self, seed: int) -> dict[str, Any]:
        config: dict[str, Any] = {
            "run_id": "${RUN_ID}",
            "algo": self.algo,
            "env_id": self.env_id,
            "seed": seed,
            "extras": self._extras(),
        }
        if self.total_timesteps is not None:
            config["total_timesteps"] = self.total_timesteps
        return config

    def _extras(self) -> dict[str, Any]:
        extras: dict[str, Any] = {**self.other_extras, "algo_params": dict(self.params)}
        extras["requirements"] = list(self.requirements)
        extras["fastlane_video_mode"] = self.fastlane_video_mode
        if self.fastlane_video_mode == "grid":
            extras["fastlane_grid_limit"] = self.fastlane_grid_limit
        for name in ("track_wandb", "capture_video"):
            if getattr(self, name):
                extras[name] = True
        if self.gpu:
            extras["cuda"] = True
        if self.track_wandb:
            extras.update({key: text for key, text in self.wandb.items() if text})
            if self.wandb_use_vpn_proxy:
                extras["wandb_use_vpn_proxy"] = True
        if self.notes:
            extras["notes"] = self.notes
        return extras

    # ------------------------------------------------------------ there and back

    @classmethod
    def from_config(cls, document: Mapping[str, Any]) -> TrainDraft:
        """The draft behind a nested config; secrets stay behind."""
        request = document["metadata"]["worker"]
        config = request["config"]
        extras = dict(config.get("extras") or {})
        resources = document.get("resources") or {}
        artifacts = document.get("artifacts") or {}
        draft = cls(
            worker=request["type"],
            module=request.get("module") or "",
            algo=config.get("algo", ""),
            env_id=config.get("env_id", ""),
            run_name=document.get("run_name", ""),
            seed=config.get("seed", 1),
            total_timesteps=config.get("total_timesteps"),
            params=dict(extras.pop("algo_params", None) or {}),
            cpus=(resources.get("cpus") or {}).get("requested", 1),
            gpu=bool((resources.get("gpus") or {}).get("requested")),
            wall_minutes=(document.get("limits") or {}).get("max_wallclock_minutes"),
            tensorboard=(artifacts.get("tensorboard") or {}).get("enabled", True),
            keep_checkpoints=artifacts.get("keep_checkpoints", 3),
            tags=list(document["metadata"].get("tags") or ()),
        )
        for key in ("cuda", "use_cuda"):
            extras.pop(key, None)
        draft.wandb = {
            key: str(value)
            for key in _EXTRA_TEXTS
            if (value := extras.pop(key, None)) and not looks_secret(key)
        }
        known = {item.name for item in fields(cls)}
        for key in list(extras):
            if key in known and extras[key] is not None:
                setattr(draft, key, extras.pop(key))
        draft.other_extras = {
            key: value for key, value in extras.items() if value is not None and key != "mode"
        }
        return draft

    def to_json(self) -> dict[str, Any]:
        """For storing a half-filled form: everything but secrets."""
        document = asdict(self)
        document["wandb"] = {k: v for k, v in self.wandb.items() if not looks_secret(k)}
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> TrainDraft:
        """A stored form.

        Raises:
            TypeError: It is no stored form.
        """
        known = {item.name for item in fields(cls)}
        return cls(**{key: value for key, value in document.items() if key in known})
