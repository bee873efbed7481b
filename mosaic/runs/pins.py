"""Pinning a checkpoint: a small file beside it that keeps it, whatever the run's policy says.

The daemon pins while a worker prunes, without a lock between them: a lock that a stopped worker
holds would stop the daemon. Instead each looks after it has acted. The daemon writes the pin and
then looks for the checkpoint; the worker hides the checkpoint and then looks for the pin. Whatever
the order, a checkpoint that `pin` has seen comes back, and one that is gone was not seen.
"""

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from mosaic.config.keeping import PIN_SUFFIX
from mosaic.runs.opening import is_regular, open_regular

_HIDDEN = ".removing-"


def pin(run_dir: Path, checkpoint: str) -> bool:
    """Keep a checkpoint of a run that may be training and pruning right now.

    Args:
        run_dir: The run's directory.
        checkpoint: The file's path in it.

    Returns:
        Whether the checkpoint is there and will stay.

    Raises:
        OSError: The file beside it cannot be written.
    """
    place = PurePosixPath(checkpoint).with_suffix(PIN_SUFFIX)
    os.close(open_regular(run_dir, str(place), os.O_WRONLY | os.O_CREAT))
    return is_regular(run_dir / checkpoint)


def remove_unless_pinned(files: Sequence[Path]) -> bool:
    """Remove the files of one checkpoint, unless it is pinned, also while this happens.

    Args:
        files: All of them are in one folder and differ in their suffix; some may be missing.

    Returns:
        Whether they are gone.
    """
    kept_by = files[0].with_suffix(PIN_SUFFIX)
    if kept_by.exists():
        return False
    hidden = [file for file in files if _renamed(file, _hidden(file))]
    # Only now is it certain that no one has seen the checkpoint since the pin was looked for.
    if kept_by.exists():
        for file in hidden:
            _renamed(_hidden(file), file)
        return False
    for file in hidden:
        _hidden(file).unlink(missing_ok=True)
    return True


def finish_removals(folder: Path) -> None:
    """Settle what a worker that was killed in the middle of `remove_unless_pinned` has left."""
    for left in folder.glob(f"{_HIDDEN}*"):
        file = left.with_name(left.name.removeprefix(_HIDDEN))
        if file.with_suffix(PIN_SUFFIX).exists():
            _renamed(left, file)
        else:
            left.unlink(missing_ok=True)


def _hidden(file: Path) -> Path:
    return file.with_name(f"{_HIDDEN}{file.name}")


def _renamed(before: Path, after: Path) -> bool:
    try:
        before.rename(after)
    except FileNotFoundError:
        return False
    return True
