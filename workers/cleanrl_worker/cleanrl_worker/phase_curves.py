"""The curves of a script: those of its phases, one after the other.

A phase is a training process of its own and stores its full curves by step, as any training does,
in a folder of its own. Here they are put together into the run's curves. When that happens plays
no part: the same script with the same seed has the same curves, however busy the machine was.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mosaic.curves.members import split_member
from mosaic.curves.names import BEST_STEP, DIVERGED, EPISODES, is_evaluation, tag_of
from mosaic.curves.pace import Marks
from mosaic.runs.metric_tail import MetricTail
from mosaic.runs.metric_writer import MetricWriter

# Where the script of a run keeps its files; only inside a script.
SCRIPT_DIR = "MOSAIC_SCRIPT_DIR"
_PHASES = "phases"
# Who watches would not notice more; how often has no effect on what is stored.
_LOOK_EVERY_S = 1.0
# The values of these curves are steps themselves.
_STEPS = frozenset({BEST_STEP, DIVERGED})


def curves_folder(run_dir: Path) -> Path:
    """Where the training of this process writes its curves: in a script, in a new folder.

    A new one, also where phases share a run directory or a script is run a second time after its
    machine was taken away: so a folder has the points of one training and no others.
    """
    script = os.environ.get(SCRIPT_DIR)
    if not script:
        return run_dir
    for number in itertools.count(1):
        folder = Path(script, _PHASES, str(number))
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise AssertionError("counting never ends")


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

    def __init__(self, folder: Path) -> None:
        # At once, before any line of the worker: the daemon keeps no curve beside this one.
        self._writer = MetricWriter(folder)
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
                self._writer.add(tag, step, value)

    def catch_up(self) -> None:
        """Take over every point that the phase has written so far."""
        self._looked = time.monotonic()
        if self._phase is not None:
            for tag, points in self._phase.new_points():
                for step, value, wall in points:
                    at = self._shift.step(tag, step)
                    self._writer.add(tag, at, self._shift.value(tag, value), wall)
                    self._note_end(tag, at)
        self._writer.flush()

    def _note_end(self, tag: str, at: int) -> None:
        if is_evaluation(tag):
            self.judged = max(self.judged, at)
        else:
            self.reached = max(self.reached, at)

    def close(self) -> None:
        """Take over the rest."""
        self.catch_up()
        self._writer.close()
