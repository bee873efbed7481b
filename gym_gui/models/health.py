"""Where a run's alarms are on its charts, and where a continued run begins."""

from pathlib import PurePosixPath

from mosaic.config.model import TrainRunConfig
from mosaic.records import RunRecord


def marks(run: RunRecord) -> tuple[tuple[int, str], ...]:
    """Where each alarm began, and its name, for the charts."""
    return tuple((alarm.step, alarm.rule) for alarm in run.alarms)


def source_step(run: RunRecord | None, config: TrainRunConfig) -> int | None:
    """The step of the run's checkpoint that a configuration continues from; None for others."""
    extras = config.worker.extras
    if run is None or extras.mode != "resume_training":
        return None
    for item in run.checkpoints:
        if item.kind == "full" and extras.checkpoint_path == f"{run.run_dir}/{item.path}":
            return item.step
    newest = run.newest_checkpoint("full")
    # A folder stands for the newest checkpoint in it.
    folder = PurePosixPath(extras.checkpoint_path or run.run_dir)
    inside = newest is not None and folder in PurePosixPath(run.run_dir, newest.path).parents
    return newest.step if newest is not None and inside else None
