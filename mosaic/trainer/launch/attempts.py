"""Preparing another attempt of a run whose machine was taken away: it continues where it was saved.

The worker gets the configuration of a run that is resumed, from its own newest full checkpoint. One
that has saved nothing, or cannot continue, begins again.
"""

from pathlib import Path

from mosaic.config.paths import Home
from mosaic.runs.curve_cutting import cut_after
from mosaic.runs.directory import RunDirectory
from mosaic.runs.opening import read_document, size_and_digest
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
    resumes = worker is not None and _RESUME in worker.modes
    found = _to_continue_from(directory.path, run) if resumes else None
    # A worker that continues by itself from what it has written keeps its curves too.
    if worker is None or not worker.restarts_after_kill:
        step = found[0].step if found else _BEFORE_ALL_STEPS
        cut_after(directory.path, step, run.total_timesteps)
    if found is not None:
        _resume_from(home, run, found[1])


def _to_continue_from(run_dir: Path, run: Run) -> tuple[Checkpoint, Path] | None:
    """The checkpoint that a run continues from, and what to give the worker; None: it begins again.

    Only what was told counts: on a full disk a worker may have saved a later one without a line
    about it, and curves cannot be cut back to a step that is not known.
    """
    told = run.checkpoints if run.mode in _TRAINS else ()
    full = [item for item in reversed(told) if item.kind == "full"]
    for item in full:
        if _is_intact(run_dir, item):
            return item, run_dir / item.path
    # A worker that writes over its one file may have done so untold. It knows best what it has.
    return (full[0], (run_dir / full[0].path).parent) if full else None


def _is_intact(run_dir: Path, saved: Checkpoint) -> bool:
    try:
        return size_and_digest(run_dir, saved.path)[1] == saved.sha256
    except OSError:
        return False  # pruned since, or never whole


def _resume_from(home: Home, run: Run, saved: Path) -> None:
    path = home.configs / f"worker-{run.run_id}.json"
    document = read_document(path)
    if document is None:
        return  # the worker says so itself, with the file's name
    extras = document.get("extras")
    document["extras"] = {
        **(extras if isinstance(extras, dict) else {}),
        "mode": _RESUME,
        "checkpoint_path": str(saved),
    }
    atomic.write_json(path, document)
