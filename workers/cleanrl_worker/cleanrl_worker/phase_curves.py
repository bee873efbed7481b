"""The curves of a script: those of its phases, one after the other.

A phase is a training process of its own and stores its full curves by step, as any training does,
in a folder of its own. Here they are put together into the run's curves, and into one event file,
so that TensorBoard shows the same. When that happens plays no part: the same script with the same
seed has the same curves, however busy the machine was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mosaic.curves.members import split_member
from mosaic.curves.names import BEST_STEP, DIVERGED, EPISODES, is_evaluation, tag_of
from mosaic.curves.pace import Marks
from mosaic.runs.metric_tail import MetricTail
from mosaic.runs.metric_writer import MetricWriter

# Who watches would not notice more; how often has no effect on what is stored.
_LOOK_EVERY_S = 1.0
# The values of these curves are steps themselves.
_STEPS = frozenset({BEST_STEP, DIVERGED})


class Events(Protocol):
    """An event file for TensorBoard."""

    def add_scalar(self, tag: str, value: float, step: int, wall_time: float) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Shift:
    """What is added to the numbers of a phase so that it follows those before it.

    Attributes:
        steps: To its steps.
        episodes: To its number of finished episodes.
        judged: To the place of an episode in an evaluation.
    """

    steps: int = 0
    episodes: float = 0
    judged: int = 0

    def step(self, tag: str, step: int) -> int:
        """Where in the run's curve a point of the phase is."""
        return step + (self.judged if is_evaluation(tag) else self.steps)

    def value(self, tag: str, value: float) -> float:
        """The value there: what counts from the beginning of a phase counts from the run's."""
        whole, _ = split_member(tag)
        if whole == tag_of(EPISODES):
            return value + self.episodes
        return value + self.steps if whole in _STEPS else value


class PhaseCurves:
    """Writes the curves of a script's run.

    Attributes:
        reached: The last step of the whole run that has a point.
        judged: The same of evaluations, in episodes.
    """

    def __init__(self, folder: Path, open_events: Callable[[], Events]) -> None:
        # At once, before any line of the worker: the daemon keeps no curve beside this one.
        self._writer = MetricWriter(folder)
        # With the first point: a script that tells us nothing may write event files of its own,
        # and an empty one would be shown in their place.
        self._open_events = open_events
        self._events: Events | None = None
        self._phase: MetricTail | None = None
        self._shift = Shift()
        self._looked = 0.0
        self._marks = Marks()
        self.reached = 0
        self.judged = 0

    def begin(self, folder: Path | None, shift: Shift) -> None:
        """Follow the next phase.

        Args:
            folder: Where its curves are; None for a program that stores none.
            shift: What is added to its numbers.
        """
        self.catch_up()
        self._phase = MetricTail(folder) if folder else None
        self._shift = shift

    def note(self, step: int, total: int, values: Mapping[str, float]) -> None:
        """A phase has told numbers, which count for the whole run already.

        Those of a program that stores no curves are stored here, at the marks of every curve.
        """
        if self._phase is not None:
            if time.monotonic() - self._looked >= _LOOK_EVERY_S:
                self.catch_up()
            return
        for name, value in values.items():
            tag = tag_of(name)
            if self._marks.due(tag, step, total):
                self._marks.store(tag, step)
                self._add(tag, step, value, time.time())

    def catch_up(self) -> None:
        """Take over every point that the phase has written so far."""
        self._looked = time.monotonic()
        if self._phase is not None:
            for tag, points in self._phase.new_points():
                for step, value, wall in points:
                    at = self._shift.step(tag, step)
                    self._add(tag, at, self._shift.value(tag, value), wall)
                    self._note_end(tag, at)
        self._writer.flush()
        if self._events is not None:
            self._events.flush()

    def _add(self, tag: str, step: int, value: float, wall: float) -> None:
        self._writer.add(tag, step, value, wall)
        if self._events is None:
            self._events = self._open_events()
        self._events.add_scalar(tag, value, step, wall)

    def _note_end(self, tag: str, at: int) -> None:
        if is_evaluation(tag):
            self.judged = max(self.judged, at)
        else:
            self.reached = max(self.reached, at)

    def close(self) -> None:
        """Take over the rest."""
        self.catch_up()
        self._writer.close()
        if self._events is not None:
            self._events.close()
