"""Curves of runs whose worker writes none itself: its headline numbers, kept by the daemon."""

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mosaic.curves.names import tag_of
from mosaic.curves.pace import MOST_POINTS, Marks
from mosaic.runs.metric_writer import DAEMONS_MARK, FOLDER, MetricWriter, Point, newest_point
from mosaic.runs.opening import is_regular, open_regular

# A worker that invents names, or steps that jump to and fro, is cut off, not stored without end.
_MOST_TAGS = 200
_MOST_POINTS = 20 * MOST_POINTS


class CurveKeeper:
    """Writes a worker's `metrics` lines to the run's metrics folder, unless the worker does.

    Of a long curve the first value at or after each mark is kept, and the last value of all.
    A mark in the folder says that the daemon writes it. A worker that opens it for writing takes
    the mark away and with it the work, so nothing is ever written twice.
    """

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._folder = run_dir / FOLDER
        self._mark = self._folder / DAEMONS_MARK
        self._writer: MetricWriter | None = None
        self._newest: dict[str, Point | None] = {}
        self._held: dict[str, Point] = {}
        self._marks = Marks()
        self._added: Counter[str] = Counter()
        self._theirs = False

    def add(self, step: int, total: int, values: Mapping[str, float], wall: float) -> None:
        """Note one line of the worker, of a run of `total` steps."""
        if self._theirs or not self._open():
            return
        for name, value in values.items():
            # Under the tag that a worker with files of its own uses: one curve, one name.
            tag = tag_of(name)
            if tag in self._newest or len(self._newest) < _MOST_TAGS:
                self._take(tag, (step, value, wall), total)

    def flush(self) -> None:
        """Write what was noted, if the work is still the daemon's."""
        if self._writer is not None and self._writer.waiting and not self._theirs:
            self._theirs = not is_regular(self._mark)
            if not self._theirs:
                self._writer.flush()

    def close(self) -> None:
        """Write everything; the run has ended."""
        if self._writer is not None:
            for tag, point in self._held.items():
                self._writer.add(tag, *point)
        self._held = {}
        self.flush()

    def _open(self) -> bool:
        """Whether there is a folder to write to and it is the daemon's to write."""
        if self._writer is not None:
            return True
        if os.path.lexists(self._folder) and not is_regular(self._mark):
            self._theirs = True
            return False
        with suppress(OSError):
            self._writer = MetricWriter(self._run_dir, flush_every_s=float("inf"), for_worker=True)
            place = f"{FOLDER}/{DAEMONS_MARK}"
            os.close(open_regular(self._run_dir, place, os.O_WRONLY | os.O_CREAT))
        return self._writer is not None

    def _take(self, tag: str, point: Point, total: int) -> None:
        assert self._writer is not None
        if tag not in self._newest:
            stored = self._newest[tag] = newest_point(self._folder, tag)
            if stored is not None:
                self._marks.store(tag, stored[0])
        last = self._newest[tag]
        if last is not None and point[0] <= last[0] and point[2] <= last[2]:
            return  # an earlier daemon has it: it had read further than its registry says
        due = self._marks.due(tag, point[0], total) and self._added[tag] < _MOST_POINTS
        if not due:
            self._held[tag] = point
            return
        self._held.pop(tag, None)
        self._newest[tag] = point
        self._marks.store(tag, point[0])
        self._added[tag] += 1
        self._writer.add(tag, *point)
