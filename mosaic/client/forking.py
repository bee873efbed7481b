"""Forks: a new run that continues exactly from a checkpoint that an earlier run has kept."""

from collections.abc import Mapping
from pathlib import PurePosixPath

from mosaic.client.sdk import TrainerClient
from mosaic.config import build
from mosaic.config.model import Parameters
from mosaic.config.suggest import by_initials
from mosaic.errors import InvalidArgumentError, RunFileError
from mosaic.records import CheckpointRecord, RunRecord
from mosaic.workers.algorithms import Algorithm, find_algorithm

# Enough to choose from; a run with `every:N` may keep hundreds.
_MOST_SHOWN = 12


def kept_checkpoints(
    trainer: TrainerClient, run_id: str, kind: str = "full"
) -> list[CheckpointRecord]:
    """The checkpoints of a run that are still on its disk, by step.

    A run's record names what was saved; the files say what was kept of it.

    Args:
        trainer: The daemon.
        run_id: The run.
        kind: `full` for those that training continues from, `policy` for those that act.
    """
    saved = {
        str(event.data["path"]): CheckpointRecord(
            path=str(event.data["path"]),
            step=int(str(event.data["step"])),
            sha256=str(event.data["sha256"]),
            kind=str(event.data["kind"]),
            saved_at=event.at,
        )
        for event in trainer.events(run_id)
        if event.kind == "checkpoint_saved" and event.data["kind"] == kind
    }
    there: set[str] = set()
    # A script of several phases keeps the checkpoints of each in a folder of its own.
    for folder in {str(PurePosixPath(path).parent) for path in saved}:
        try:
            there |= {file.path for file in trainer.files(run_id, folder)}
        except RunFileError:
            continue
    return sorted((item for item in saved.values() if item.path in there), key=lambda i: i.step)


def checkpoint_at(trainer: TrainerClient, base: RunRecord, step: int) -> CheckpointRecord:
    """The checkpoint of a run at exactly this step.

    Raises:
        InvalidArgumentError: It keeps none there; the text names the nearest ones.
    """
    kept = kept_checkpoints(trainer, base.run_id)
    for item in kept:
        if item.step == step:
            return item
    raise InvalidArgumentError(_not_kept(base.run_id, [item.step for item in kept], step))


def _not_kept(run_id: str, steps: list[int], step: int) -> str:
    more = "to keep more, train with --keep, such as --keep every:10000,last:3"
    if not steps:
        return f"run {run_id} keeps no checkpoint to continue from; {more}"
    near = sorted(steps, key=lambda one: abs(one - step))[:_MOST_SHOWN]
    before = [one for one in steps if one < step]
    hint = f"; the nearest before it: --at {before[-1]}" if before else ""
    shown = ", ".join(f"{one:,}" for one in sorted(near))
    rest = f" and {len(steps) - len(near)} more" if len(steps) > len(near) else ""
    return f"run {run_id} keeps no checkpoint at step {step:,}; kept: {shown}{rest}{hint}; {more}"


def fork(
    trainer: TrainerClient,
    base: RunRecord,
    step: int,
    parameters: Parameters,
    *,
    name: str = "",
    notes: str = "",
    keep: str | None = None,
    total_timesteps: int | None = None,
    priority: int = 0,
) -> RunRecord:
    """Submit a run that continues from a kept checkpoint, with some settings changed.

    Args:
        trainer: The daemon.
        base: The run to fork.
        step: The step of one of its kept checkpoints.
        parameters: Arguments of the algorithm that change, checked already.
        name: Another name; by default the run's own with the step.
        notes: Notes.
        keep: Which checkpoints the fork keeps; as the run by default.
        total_timesteps: Steps in all, counted from the beginning of the first run.
        priority: Higher starts first.

    Raises:
        InvalidArgumentError: The run keeps no checkpoint at this step.
        InvalidConfigError: With every problem of the changed configuration.
    """
    checkpoint = checkpoint_at(trainer, base, step)
    config = build.resume(
        build.read_config(trainer.config(base.run_id)),
        base,
        # From the daemon's side: the run directory is on its machine.
        checkpoint=f"{base.run_dir}/{checkpoint.path}",
        parameters=parameters,
        total_timesteps=total_timesteps,
        name=name or f"{base.run_name} @ {step}"[: build.LONGEST_NAME],
        notes=notes,
        keep=keep,
    )
    return trainer.submit(
        config, priority=priority, parent_run_id=base.run_id, parent_step=checkpoint.step
    )


def algorithm_of(base: RunRecord) -> Algorithm:
    """What a run was trained with, as its worker describes it.

    Raises:
        InvalidConfigError: The worker, or the algorithm, is not installed any more.
    """
    return find_algorithm(base.algo, base.worker)


def full_names(algorithm: Algorithm, given: Mapping[str, str]) -> dict[str, str]:
    """What was given under the arguments' full names: `lr` is `learning_rate`.

    A name that no argument has stays as it is; who reads it next says what is allowed.
    """
    declared = [item["name"] for item in algorithm.arguments or ()]
    found: dict[str, str] = {}
    for typed, value in given.items():
        name = typed.replace("-", "_")
        found[name if name in declared else by_initials(name, declared) or name] = value
    return found
