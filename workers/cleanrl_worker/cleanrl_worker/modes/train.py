"""Standard training: an algorithm file, bundled or the user's own upstream copy, with its flags."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cleanrl_worker import bundles, wandb_environment
from cleanrl_worker.config import CleanRLWorkerConfig, problem
from cleanrl_worker.modes.plan import Plan
from cleanrl_worker.resolution import Script, UnknownAlgorithmError, resolve
from cleanrl_worker.wrappers import curriculum
from mosaic.workers import Problem

MISSING_STEPS = "CFG116"


def complete(config: CleanRLWorkerConfig, run_dir: Path | None) -> CleanRLWorkerConfig:
    """The environment a curriculum ends in, or the algorithm's own, when none is named."""
    if config.env_id:
        return config
    stages = curriculum.read_schedule(config.extras.get("curriculum_schedule"))
    if isinstance(stages, list) and stages:
        return config.with_overrides(env_id=stages[-1].env_id)
    try:
        schema = resolve(config.algo).schema
    except UnknownAlgorithmError:
        return config
    argument = schema.arguments.get("env_id")
    default = schema.algorithm.get("default_env") or (argument and argument.default)
    return config.with_overrides(env_id=default)


def problems(
    config: CleanRLWorkerConfig, run_dir: Path | None, *, thorough: bool
) -> Iterator[Problem]:
    """A budget is needed, and a curriculum must make sense."""
    if not config.total_timesteps and not config.script_parameters().get("smoke"):
        text = "'total_timesteps' is required: how long to train"
        yield problem("total_timesteps", MISSING_STEPS, text)
    yield from curriculum.problems(config, thorough=thorough)


def plan(config: CleanRLWorkerConfig, run_dir: Path) -> Plan:
    """Run the script through the launcher."""
    chosen = resolve(config.algo)
    environment = {
        # Small networks are slower on several threads; ours say so themselves.
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        **wandb_environment.environment(config, run_dir),
        **curriculum.environment(config),
    }
    return Plan(
        arguments=(chosen.target, *script_flags(config, chosen, run_dir)),
        environment=environment,
        obeys=chosen.bundled,
        saves=chosen.bundled,
        # Upstream's scripts write to runs/ and videos/ of the folder they are started in.
        folder=None if chosen.bundled else run_dir,
        python=bundles.interpreter(bundles.wanted_sets(config)),
    )


def script_flags(config: CleanRLWorkerConfig, script: Script, run_dir: Path) -> list[str]:
    """A run's settings as flags of its script; a setting the script does not know is left out
    where it is the worker's own, and was refused by validation where it is the user's."""
    extras, known = config.extras, script.schema.arguments
    settings: dict[str, Any] = {
        "env_id": config.env_id or None,
        "seed": config.seed,
        "total_timesteps": config.total_timesteps,
        "cuda": config.cuda,
        "gamma": extras.get("gamma"),
        "track": extras.get("track_wandb") or None,
        "wandb_project_name": extras.get("wandb_project_name"),
        "wandb_entity": extras.get("wandb_entity"),
        "capture_video": extras.get("capture_video") or None,
        "run_dir": str(run_dir),
        "tensorboard_dir": str(run_dir / str(extras.get("tensorboard_dir") or "tensorboard")),
        "keep_checkpoints": extras.get("keep_checkpoints"),
        **config.script_parameters(),
    }
    flags: list[str] = []
    for name, value in settings.items():
        if name in known and value is not None:
            flags += format_flag(name, value)
    return flags


def format_flag(name: str, value: Any) -> list[str]:
    """One setting as tyro understands it."""
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    return [f"--{flag}", *map(str, value)] if isinstance(value, list) else [f"--{flag}", str(value)]
