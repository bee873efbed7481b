"""Cutting a run's stored curves back to a checkpoint from which it is continued in the same run."""

import os
from pathlib import Path
from urllib.parse import quote

from mosaic.curves.names import EPISODES, LENGTH, RETURN, tag_of
from mosaic.curves.pace import next_mark
from mosaic.runs import opening
from mosaic.runs.metric_writer import FOLDER, POINT, SUFFIX
from mosaic.runs.opening import names_in

# Their points count episodes, not steps, so that no step says where to cut them.
_EVALUATION = "eval%2F"
# Those that are stored at marks, also of single members; all others are stored at each update.
_AT_MARKS = tuple(quote(tag_of(name), safe="") for name in (RETURN, LENGTH, EPISODES))


def cut_after(run_dir: Path, step: int, total: int = 0) -> None:
    """Remove the points after a step: the continued run will write them again.

    Without this each curve would run back over itself. A negative step removes all points.

    Args:
        run_dir: The run.
        step: Of the checkpoint that it continues from.
        total: The steps of the whole run. A worker that is asked to end stores the return of that
            moment, wherever it is between two marks; without that point the curve is the one of a
            run that was never interrupted.

    Raises:
        OSError: The disk refuses.
    """
    for name in names_in(run_dir, FOLDER):
        if name.endswith(SUFFIX) and (step < 0 or not name.startswith(_EVALUATION)):
            _cut(run_dir, f"{FOLDER}/{name}", step, total if name.startswith(_AT_MARKS) else 0)


def _cut(run_dir: Path, name: str, step: int, total: int) -> None:
    descriptor = opening.open_regular(run_dir, name, os.O_RDWR)
    try:
        low, high = 0, os.fstat(descriptor).st_size // POINT.size
        # Steps only grow within a file, so the place is found by halving.
        while low < high:
            middle = (low + high) // 2
            at = _step_at(descriptor, middle)
            low, high = (middle + 1, high) if at <= step else (low, middle)
        if total and low >= 2:
            before, last = (_step_at(descriptor, place) for place in (low - 2, low - 1))
            low -= last < next_mark(before, total)
        os.ftruncate(descriptor, low * POINT.size)
    finally:
        os.close(descriptor)


def _step_at(descriptor: int, place: int) -> int:
    step, _, _ = POINT.unpack(os.pread(descriptor, POINT.size, place * POINT.size))
    return int(step)
