"""Reading a run's scalars: one append-only file of 24-byte points a tag.

Compact, readable without TensorBoard, and safe to read while it grows: a reader takes whole
points only.
"""

import urllib.parse
from pathlib import Path
from typing import Any

import numpy as np

from mosaic.runs.metric_writer import FOLDER, SUFFIX, path_of

_TURN_POINTS = 1 << 18
POINT = np.dtype([("step", "<i8"), ("value", "<f8"), ("wall", "<f8")])


class MetricReader:
    """Reads what a `MetricWriter` of any process has appended."""

    def __init__(self, run_dir: str | Path) -> None:
        self._folder = Path(run_dir) / FOLDER

    def tags(self) -> list[str]:
        """Every tag with at least one point."""
        if not self._folder.is_dir():
            return []
        return sorted(
            urllib.parse.unquote(path.name.removesuffix(SUFFIX))
            for path in self._folder.iterdir()
            if path.name.endswith(SUFFIX)
        )

    def read(self, tag: str, start: int = 0, max_points: int = 0) -> "np.ndarray[Any, Any]":
        """Points from index `start` on, thinned to about `max_points` when that is set."""
        return self.read_counted(tag, start, max_points)[1]

    def read_counted(
        self, tag: str, start: int = 0, max_points: int = 0
    ) -> "tuple[int, np.ndarray[Any, Any]]":
        """The same, with how many points there were before thinning."""
        path = path_of(self._folder, tag)
        try:
            count = path.stat().st_size // POINT.itemsize - start
        except FileNotFoundError:
            count = 0
        if count <= 0:
            return 0, np.empty(0, POINT)
        if 0 < max_points < count:
            return _read_thinned(path, start, count, max_points)
        points = np.fromfile(path, POINT, count=count, offset=start * POINT.itemsize)
        return len(points), points


def _read_thinned(
    path: Path, start: int, count: int, max_points: int
) -> "tuple[int, np.ndarray[Any, Any]]":
    """How many points were read, and about `max_points` of them: each bucket's extremes, both ends.

    A few megabytes at a time, so that a curve of any length takes no more memory than that.
    """
    size = -(-count // max(1, max_points // 2))
    turn = max(1, _TURN_POINTS // size) * size
    kept, read = [], 0
    with path.open("rb") as file:
        file.seek(start * POINT.itemsize)
        while read < count:
            points = np.fromfile(file, POINT, count=min(turn, count - read))
            if not len(points):
                break
            ends = [0] if read == 0 else []
            read += len(points)
            ends += [len(points) - 1] if read == count else []
            places = np.concatenate([_extremes(points["value"], size), ends]).astype(np.intp)
            kept.append(points[np.unique(places)])
    return read, np.concatenate(kept) if kept else np.empty(0, POINT)


def _extremes(values: "np.ndarray[Any, Any]", size: int) -> "np.ndarray[Any, Any]":
    """Places of the lowest and the highest of each `size` values."""
    values = np.ascontiguousarray(values)
    # A sum is not finite when one of its parts is not; that is rare and asks for a copy.
    if not np.isfinite(values.sum()):
        values = np.nan_to_num(values)
    whole = len(values) // size * size
    places = []
    for first, blocks in ((0, values[:whole].reshape(-1, size)), (whole, values[None, whole:])):
        if blocks.size:
            offsets = first + np.arange(len(blocks)) * size
            places += [offsets + blocks.argmin(axis=1), offsets + blocks.argmax(axis=1)]
    return np.concatenate(places)
