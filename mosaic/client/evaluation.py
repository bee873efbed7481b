"""The configuration of a run that evaluates another one."""

from pathlib import Path
from typing import Any

from mosaic.errors import InvalidConfigError, Problem
from mosaic.records import RunRecord


def evaluation_config(
    base: RunRecord,
    *,
    episodes: int,
    seed: int = 1,
    gamma: float | None = None,
    env_id: str | None = None,
    max_steps: int | None = None,
    video: bool = False,
    repeat: bool = False,
) -> dict[str, Any]:
    """Play the newest policy of a run.

    Args:
        base: The record of the run.
        episodes: How many to play.
        seed: Of the evaluation, not of the training.
        gamma: Discount of the discounted return; the policy's own by default.
        env_id: Another environment than it was trained in.
        max_steps: End longer episodes.
        video: Record the first environment.
        repeat: Go on until cancelled.

    Raises:
        InvalidConfigError: The run has saved no policy.
    """
    if not any(item.kind == "policy" for item in base.checkpoints):
        message = f"run {base.run_id} has saved no policy yet"
        raise InvalidConfigError([Problem("", "CFG121", message)])
    extras: dict[str, Any] = {
        "mode": "policy_eval",
        "policy_path": str(Path(base.run_dir) / "checkpoints"),
        "eval_episodes": episodes,
        "capture_video": video,
        "repeat": repeat,
    }
    if gamma is not None:
        extras["gamma"] = gamma
    if max_steps:
        extras["eval_max_steps"] = max_steps
    return {
        "run_name": f"eval of {base.run_name}",
        "artifacts": {},
        "metadata": {
            "worker": {
                "type": base.worker,
                "config": {
                    "algo": base.algo,
                    "env_id": env_id or base.env_id,
                    "seed": seed,
                    "extras": extras,
                },
            }
        },
    }
