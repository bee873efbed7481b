"""Cutting a run's stored curves back to a checkpoint from which it is continued in the same run."""

import os
from pathlib import Path

from mosaic.runs import opening
from mosaic.runs.metric_writer import FOLDER, POINT, SUFFIX
from mosaic.runs.opening import names_in

# Their points count episodes, not steps, so that no step says where to cut them.
_EVALUATION = "eval%2F"


def cut_after(run_dir: Path, step: int) -> None:
    """Remove the points after a step: the continued run will write them again.

    Without this each curve would run back over itself. A negative step removes all points.

    Raises:
        OSError: The disk refuses.
    """
    for name in names_in(run_dir, FOLDER):
        if name.endswith(SUFFIX) and (step < 0 or not name.startswith(_EVALUATION)):
            _cut(run_dir, f"{FOLDER}/{name}", step)


def _cut(run_dir: Path, name: str, step: int) -> None:
    descriptor = opening.open_regular(run_dir, name, os.O_RDWR)
    try:
        low, high = 0, os.fstat(descriptor).st_size // POINT.size
        # Steps only grow within a file, so the place is found by halving.
        while low < high:
            middle = (low + high) // 2
            at, _, _ = POINT.unpack(os.pread(descriptor, POINT.size, middle * POINT.size))
            low, high = (middle + 1, high) if at <= step else (low, middle)
        os.ftruncate(descriptor, low * POINT.size)
    finally:
        os.close(descriptor)
