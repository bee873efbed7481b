"""A run's scalars on disk: one append-only file of 24-byte points a tag.

Compact, readable without TensorBoard, and safe to read while it grows: a reader takes whole
points only.
"""

import os
import time
import urllib.parse
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

POINT = np.dtype([("step", "<i8"), ("value", "<f8"), ("wall", "<f8")])
_SUFFIX = ".points"
_FOLDER = "metrics"


class MetricWriter:
    """Buffers points and appends them once a second."""

    def __init__(self, run_dir: str | Path, flush_every_s: float = 1.0) -> None:
        self._folder = Path(run_dir) / _FOLDER
        self._folder.mkdir(parents=True, exist_ok=True)
        self._flush_every_s = flush_every_s
        self._flushed_at = time.monotonic()
        self._pending: dict[str, list[tuple[int, float, float]]] = {}

    def add(self, tag: str, step: int, value: float, wall_time: float | None = None) -> None:
        """Note one value."""
        wall = time.time() if wall_time is None else wall_time
        self._pending.setdefault(tag, []).append((int(step), float(value), wall))
        if time.monotonic() - self._flushed_at >= self._flush_every_s:
            self.flush()

    def flush(self) -> None:
        """Append everything noted so far."""
        self._flushed_at = time.monotonic()
        pending, self._pending = self._pending, {}
        for tag, points in pending.items():
            path = self._folder / (urllib.parse.quote(tag, safe="") + _SUFFIX)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                whole = os.fstat(descriptor).st_size // POINT.itemsize * POINT.itemsize
                os.pwrite(descriptor, np.array(points, POINT).tobytes(), whole)
            finally:
                os.close(descriptor)

    def close(self) -> None:
        """Append what is left."""
        self.flush()

    def __enter__(self) -> "MetricWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class MetricReader:
    """Reads what a `MetricWriter` of any process has appended."""

    def __init__(self, run_dir: str | Path) -> None:
        self._folder = Path(run_dir) / _FOLDER

    def tags(self) -> list[str]:
        """Every tag with at least one point."""
        if not self._folder.is_dir():
            return []
        return sorted(
            urllib.parse.unquote(path.name.removesuffix(_SUFFIX))
            for path in self._folder.iterdir()
            if path.name.endswith(_SUFFIX)
        )

    def read(self, tag: str, start: int = 0, max_points: int = 0) -> "np.ndarray[Any, Any]":
        """Points from index `start` on, thinned to about `max_points` when that is set."""
        return self.read_counted(tag, start, max_points)[1]

    def read_counted(
        self, tag: str, start: int = 0, max_points: int = 0
    ) -> "tuple[int, np.ndarray[Any, Any]]":
        """The same, with how many points there were before thinning."""
        path = self._folder / (urllib.parse.quote(tag, safe="") + _SUFFIX)
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
