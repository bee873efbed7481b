"""Following a run's scalars while another process writes them. Needs no NumPy."""

import os
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

from mosaic.runs import opening
from mosaic.runs.metric_writer import FOLDER, POINT, SUFFIX, Point

# A megabyte and a half: a phase that was not looked at for hours is read piece by piece.
_MOST_AT_ONCE = 1 << 16


class MetricTail:
    """Every point of a metrics folder, each once, in the order of its curve."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._read: dict[str, int] = {}

    def new_points(self) -> Iterator[tuple[str, list[Point]]]:
        """Each tag with its points since the last call."""
        for name in sorted(opening.names_in(self._run_dir, FOLDER)):
            if not name.endswith(SUFFIX):
                continue
            tag = urllib.parse.unquote(name.removesuffix(SUFFIX))
            while points := self._next(name):
                yield tag, points

    def _next(self, name: str) -> list[Point]:
        start = self._read.get(name, 0)
        try:
            descriptor = opening.open_regular(self._run_dir, f"{FOLDER}/{name}")
        except OSError:
            return []
        try:
            content = os.pread(descriptor, _MOST_AT_ONCE * POINT.size, start * POINT.size)
        finally:
            os.close(descriptor)
        # The last point may be half written: it is whole at the next look.
        whole = len(content) // POINT.size
        self._read[name] = start + whole
        return list(POINT.iter_unpack(content[: whole * POINT.size]))
