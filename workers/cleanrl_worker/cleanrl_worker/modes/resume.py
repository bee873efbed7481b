"""Resume: continue from a full state as if the run had never stopped, or from weights alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from cleanrl_worker.config import CleanRLWorkerConfig, problem
from cleanrl_worker.kit.errors import CheckpointError
from cleanrl_worker.modes import train
from cleanrl_worker.modes.plan import Plan
from cleanrl_worker.resolution import UnknownAlgorithmError, resolve
from cleanrl_worker.running.checkpoint_files import STATE_SUFFIX, CheckpointInfo, describe, locate
from mosaic.config.json_types import JsonValue
from mosaic.workers import Problem

BAD_CHECKPOINT = "CFG130"
# Settings of the earlier run that are not about learning.
_ITS_OWN = frozenset(
    {
        "exp_name",
        "run_dir",
        "tensorboard_dir",
        "resume",
        "stop_at",
        "smoke",
        "track",
        "wandb_project_name",
        "wandb_entity",
        "capture_video",
        "save_model",
        "upload_model",
        "hf_entity",
        "cuda",
        "seed",
        "env_id",
        "total_timesteps",
        "checkpoint_interval_s",
        "keep_checkpoints",
    }
)


def complete(config: CleanRLWorkerConfig, run_dir: Path | None) -> CleanRLWorkerConfig:
    """Take what is not given from the checkpoint: algorithm, environment, settings."""
    try:
        info = _read(config, run_dir, check=False)
        arguments = resolve(config.algo or info.algorithm).schema.arguments
    except (CheckpointError, UnknownAlgorithmError):
        return train.complete(config, run_dir)
    changed: dict[str, JsonValue] = {
        name: value
        for name, value in info.args.items()
        if name in arguments and name not in _ITS_OWN and value != arguments[name].default
    }
    total = info.args.get("total_timesteps")
    return config.with_overrides(
        algo=config.algo or info.algorithm,
        env_id=config.env_id or ("" if info.foreign_module else info.env_id),
        total_timesteps=config.total_timesteps or (total if isinstance(total, int) else None),
        extras={"algo_params": {**changed, **config.extras.algo_params}},
    )


def problems(
    config: CleanRLWorkerConfig, run_dir: Path | None, *, thorough: bool
) -> Iterator[Problem]:
    """The checkpoint must be there, be whole, and fit."""
    yield from train.problems(config, run_dir, thorough=thorough)
    if not (config.extras.checkpoint_path or config.extras.policy_path) and run_dir is None:
        return
    try:
        info = _read(config, run_dir, check=thorough)
    except CheckpointError as error:
        yield problem("extras/checkpoint_path", BAD_CHECKPOINT, str(error))
        return
    if info.foreign_module and not config.env_id:
        yield problem("env_id", BAD_CHECKPOINT, info.foreign_module)
    for sentence in _misfits(config, info):
        yield problem("extras/checkpoint_path", BAD_CHECKPOINT, sentence)


def plan(config: CleanRLWorkerConfig, run_dir: Path) -> Plan:
    """Training, told where to continue from."""
    source = _source(config, run_dir)
    ordinary = train.plan(config, run_dir)
    return dataclasses.replace(
        ordinary,
        values={**ordinary.values, "resume": str(source)},
        obeys=True,
        saves=True,
        first_step=_first_step(config, run_dir),
    )


def _first_step(config: CleanRLWorkerConfig, run_dir: Path) -> int:
    try:
        info = _read(config, run_dir, check=False)
    except CheckpointError:
        # The script says so itself, with the file's name.
        return 0
    # From weights alone a run begins at step 0.
    return info.step if info.full else 0


def _source(config: CleanRLWorkerConfig, run_dir: Path) -> Path:
    """Where the script continues from; in a folder, it finds the newest valid file by itself."""
    given = config.extras.checkpoint_path or config.extras.policy_path
    if not given:
        return run_dir
    path = Path(given).expanduser().absolute()
    return path if path.is_dir() else locate(given, run_dir, STATE_SUFFIX, check=False)


def _read(config: CleanRLWorkerConfig, run_dir: Path | None, *, check: bool) -> CheckpointInfo:
    # `policy_path` is what the design documents call it.
    given = config.extras.checkpoint_path or config.extras.policy_path
    given = given or (str(run_dir) if run_dir else "")
    if not given:
        raise CheckpointError("no checkpoint is given")
    return describe(locate(given, run_dir, STATE_SUFFIX, check=check))


def _misfits(config: CleanRLWorkerConfig, info: CheckpointInfo) -> Iterator[str]:
    name = info.path.name
    if config.algo.startswith("cleanrl:"):
        yield f"{config.algo} is an upstream script, which cannot resume; use the bundled one"
        return
    if not info.full and not info.algorithm:
        yield f"{name} does not say which algorithm it is of; give one that MOSAIC has saved"
        return
    for key, wanted, found in (
        ("algorithm", config.algo, info.algorithm),
        ("environment", config.env_id, info.env_id),
    ):
        if wanted and wanted != found:
            yield (
                f"{name} is a checkpoint of the {key} {found!r}, this run has {wanted!r}; "
                f"leave it out to continue with {found!r}"
            )
    # From weights alone a run begins at step 0, so its steps are all additional ones.
    if info.full and config.total_timesteps and config.total_timesteps <= info.step:
        yield (
            f"{name} has already reached step {info.step}; 'total_timesteps' counts from the "
            f"beginning: give more than {info.step}, not {config.total_timesteps}"
        )
