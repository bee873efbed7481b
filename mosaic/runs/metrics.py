"""Reading a run's scalars: one append-only file of 24-byte points a tag.

Compact, readable without TensorBoard, and safe to read while it grows: a reader takes whole
points only.
"""

import urllib.parse
from pathlib import Path
from typing import Any

import numpy as np

from mosaic.runs.metric_writer import FOLDER, SUFFIX, path_of

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
        points = np.fromfile(path, POINT, count=count, offset=start * POINT.itemsize)
        shown = thin(points, max_points) if 0 < max_points < len(points) else points
        return len(points), shown


def thin(points: "np.ndarray[Any, Any]", max_points: int) -> "np.ndarray[Any, Any]":
    """At most about `max_points` of them, keeping each bucket's extremes and both ends."""
    buckets = max(1, max_points // 2)
    size = -(-len(points) // buckets)
    whole = len(points) // size * size
    values = np.nan_to_num(points["value"][:whole]).reshape(-1, size)
    offsets = np.arange(len(values)) * size
    chosen = np.concatenate(
        [offsets + values.argmin(axis=1), offsets + values.argmax(axis=1), [0, len(points) - 1]]
    )
    kept: np.ndarray[Any, Any] = points[np.unique(chosen)]
    return kept
