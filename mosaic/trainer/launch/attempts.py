"""Preparing another attempt of a run whose machine was taken away: it continues where it was saved.

The worker gets the configuration of a run that is resumed, from its own newest full checkpoint. One
that has saved nothing, or cannot continue, begins again.
"""

from pathlib import Path

from mosaic.config.paths import Home
from mosaic.runs.curve_cutting import cut_after
from mosaic.runs.directory import RunDirectory
from mosaic.runs.opening import read_document
from mosaic.system import atomic
from mosaic.trainer.core.states import Checkpoint, Run
from mosaic.workers.capabilities import WorkerCapabilities

_RESUME = "resume_training"
_TRAINS = ("train", _RESUME)
_BEFORE_ALL_STEPS = -1


def prepare(home: Home, run: Run, worker: WorkerCapabilities | None) -> None:
    """Fence the attempts before, and tell the worker where to continue.

    Raises:
        OSError: The disk refuses.
    """
    directory = RunDirectory(home.run_dir(run.run_id), run.attempt)
    # First: from here on a supervisor of an earlier attempt that is still alive ends itself.
    atomic.write_text(directory.fence, str(run.attempt))
    saved = newest_full(run) if worker and _RESUME in worker.modes else None
    # A worker that continues by itself from what it has written keeps its curves too.
    if worker is None or not worker.restarts_after_kill:
        step = saved.step if saved else _BEFORE_ALL_STEPS
        cut_after(directory.path, step, run.total_timesteps)
    if saved is not None:
        _resume_from(home, run, saved)


def newest_full(run: Run) -> Checkpoint | None:
    """The checkpoint that a run can be continued from; None if it has saved none."""
    if run.mode not in _TRAINS:
        return None
    full = [item for item in run.checkpoints if item.kind == "full"]
    return full[-1] if full else None


def _resume_from(home: Home, run: Run, saved: Checkpoint) -> None:
    path = home.configs / f"worker-{run.run_id}.json"
    document = read_document(path)
    if document is None:
        return  # the worker says so itself, with the file's name
    extras = document.get("extras")
    # The folder: workers take its newest valid checkpoint, and the last one may be half written.
    folder = home.run_dir(run.run_id) / Path(saved.path).parent
    document["extras"] = {
        **(extras if isinstance(extras, dict) else {}),
        "mode": _RESUME,
        "checkpoint_path": str(folder),
    }
    atomic.write_json(path, document)
