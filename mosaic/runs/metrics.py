"""Reading a run's scalars: one append-only file of 24-byte points a tag.

Compact, readable without TensorBoard, and safe to read while it grows: a reader takes whole
points only.
"""

import os
import urllib.parse
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from mosaic.curves.thinning import bucket_size, extremes
from mosaic.runs import opening
from mosaic.runs.metric_writer import FOLDER, SUFFIX, path_of

# Six megabytes at a time.
_TURN_POINTS = 1 << 18
# Of a structured array numpy's types know no more than that.
Points = NDArray[np.void]
POINT = np.dtype([("step", "<i8"), ("value", "<f8"), ("wall", "<f8")])


class MetricReader:
    """Reads what a `MetricWriter` of any process has appended."""

    def __init__(self, run_dir: str | Path) -> None:
        self._run_dir = Path(run_dir)

    def tags(self) -> list[str]:
        """Every tag with at least one point."""
        return sorted(
            urllib.parse.unquote(name.removesuffix(SUFFIX))
            for name in opening.names_in(self._run_dir, FOLDER)
            if name.endswith(SUFFIX)
        )

    def read(self, tag: str, start: int = 0, max_points: int = 0) -> Points:
        """Points from index `start` on, thinned to about `max_points` when that is set."""
        return self.read_counted(tag, start, max_points)[1]

    def read_counted(self, tag: str, start: int = 0, max_points: int = 0) -> tuple[int, Points]:
        """The same, with how many points there were before thinning."""
        name = path_of(self._run_dir / FOLDER, tag).name
        try:
            descriptor = opening.open_regular(self._run_dir, f"{FOLDER}/{name}")
        except OSError:
            return 0, np.empty(0, POINT)
        with os.fdopen(descriptor, "rb") as file:
            count = os.fstat(descriptor).st_size // POINT.itemsize - start
            if count <= 0:
                return 0, np.empty(0, POINT)
            file.seek(start * POINT.itemsize)
            if 0 < max_points < count:
                return _read_thinned(file, count, max_points)
            points = np.fromfile(file, POINT, count=count)
            return len(points), points


def _read_thinned(file: BinaryIO, count: int, max_points: int) -> tuple[int, Points]:
    """How many points were read, and about `max_points` of them: each bucket's extremes, both ends.

    A few megabytes at a time, so that a curve of any length takes no more memory than that.
    """
    size = bucket_size(count, max_points)
    turn = max(1, _TURN_POINTS // size) * size
    kept: list[Points] = []
    read = 0
    while read < count:
        points = np.fromfile(file, POINT, count=min(turn, count - read))
        if not len(points):
            break
        ends = [0] if read == 0 else []
        read += len(points)
        ends += [len(points) - 1] if read == count else []
        places = np.concatenate([extremes(points["value"], size), ends]).astype(np.intp)
        kept.append(points[np.unique(places)])
    return read, np.concatenate(kept) if kept else np.empty(0, POINT)
