"""Standard training: an algorithm file, bundled or the user's own upstream copy, with its flags."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from cleanrl_worker import bundles, wandb_environment
from cleanrl_worker.config import CleanRLWorkerConfig, problem
from cleanrl_worker.modes.plan import Plan
from cleanrl_worker.resolution import Script, UnknownAlgorithmError, resolve
from cleanrl_worker.script_folders import event_folder
from cleanrl_worker.wrappers import curriculum
from mosaic.config.json_types import JsonValue
from mosaic.workers import Problem

MISSING_STEPS = "CFG116"


def complete(config: CleanRLWorkerConfig, run_dir: Path | None) -> CleanRLWorkerConfig:
    """The environment a curriculum ends in, or the algorithm's own, when none is named."""
    if config.env_id:
        return config
    stages = curriculum.read_schedule(config.extras.curriculum_schedule)
    if isinstance(stages, list) and stages:
        return config.with_overrides(env_id=stages[-1].env_id)
    try:
        schema = resolve(config.algo).schema
    except UnknownAlgorithmError:
        return config
    argument = schema.arguments.get("env_id")
    declared = argument.default if argument else None
    return config.with_overrides(env_id=schema.algorithm.get("default_env") or declared)


def problems(
    config: CleanRLWorkerConfig, run_dir: Path | None, *, thorough: bool
) -> Iterator[Problem]:
    """A budget is needed, and a curriculum must make sense."""
    if not config.total_timesteps and not config.parameters.get("smoke"):
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
        target=chosen.target,
        values=arguments(config, chosen, run_dir),
        takes_values=chosen.bundled,
        spells_truth=chosen.schema.spells_truth,
        environment=environment,
        obeys=chosen.bundled,
        saves=chosen.bundled,
        # Upstream's scripts write to runs/ and videos/ of the folder they are started in.
        folder=None if chosen.bundled else run_dir,
        python=bundles.interpreter(bundles.wanted_sets(config)),
    )


def arguments(config: CleanRLWorkerConfig, script: Script, run_dir: Path) -> dict[str, JsonValue]:
    """A run's settings as arguments of its script.

    A setting of the worker's own that the script does not know is left out; one of the user's
    was refused by validation.
    """
    extras, known = config.extras, script.schema.arguments
    own: dict[str, JsonValue] = {
        "env_id": config.env_id or None,
        "seed": config.seed,
        "total_timesteps": config.total_timesteps,
        "cuda": config.cuda,
        "gamma": extras.gamma,
        "track": extras.track_wandb or None,
        "wandb_project_name": extras.wandb_project_name,
        "wandb_entity": extras.wandb_entity,
        "capture_video": extras.capture_video or None,
        "run_dir": str(run_dir),
        "tensorboard_dir": str(event_folder(run_dir, extras.tensorboard_dir)),
        "keep_checkpoints": None
        if extras.keep_checkpoints is None
        else str(extras.keep_checkpoints),
    }
    told = {name: value for name, value in own.items() if name in known and value is not None}
    # A null of the user's is a value like any other: it turns an optional argument off.
    given = {name: value for name, value in config.parameters.items() if name in known}
    return {**told, **given}
