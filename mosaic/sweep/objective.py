"""The value of a run: a number from its curve, at the end and on the way."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from mosaic.curves.names import LENGTH, RETURN, TAGS
from mosaic.errors import InvalidConfigError, Problem
from mosaic.records import Progress

EVALUATION = "eval"
DEFAULT_TAG = TAGS[RETURN]
SUMMARIES = ("last", "mean", "max")
# Often enough to save most of a hopeless run, seldom enough that one bad episode decides nothing.
RUNGS = 10
# Each point of these curves is a mean over the newest episodes already, so the last one is the
# number that tables show.
_MEANS = frozenset({TAGS[RETURN], TAGS[LENGTH]})
# The end of any other curve: its last tenth of steps, but not so few points that one update
# decides, unless there are few altogether.
_LAST_SHARE, _FEWEST_POINTS, _FEW_POINTS_SHARE = 0.1, 10, 0.2


@dataclass(frozen=True)
class Curve:
    """The points of one scalar of a run."""

    steps: Sequence[int]
    values: Sequence[float]

    def until(self, step: float) -> "Curve":
        """The points up to a step."""
        count = sum(1 for reached in self.steps if reached <= step)
        return Curve(self.steps[:count], self.values[:count])


@dataclass(frozen=True)
class Objective:
    """What to make large or small.

    Attributes:
        tag: The scalar; `eval` stands for the mean return of an evaluation of the final policy.
        summary: How a curve becomes a number: `last`, `mean` or `max`.
    """

    tag: str = DEFAULT_TAG
    summary: str = "last"

    @property
    def evaluates(self) -> bool:
        """Whether the final policy is played to get the number."""
        return self.tag == EVALUATION

    @property
    def curve_tag(self) -> str:
        """The scalar to compare while a run trains."""
        return DEFAULT_TAG if self.evaluates else self.tag

    def score(self, curve: Curve) -> float | None:
        """A curve as one number; None when it has no points."""
        if not curve.values:
            return None
        if self.summary == "mean":
            return fmean(curve.values)
        if self.summary == "max":
            return max(curve.values)
        return curve.values[-1] if self.curve_tag in _MEANS else _end(curve)

    def __str__(self) -> str:
        return self.tag if self.evaluates else f"{self.tag}:{self.summary}"


def read_objective(text: str) -> Objective:
    """`eval`, `TAG` or `TAG:last`, `TAG:mean`, `TAG:max`.

    Raises:
        InvalidConfigError: It is none of these.
    """
    if text == EVALUATION:
        return Objective(EVALUATION)
    tag, colon, summary = text.rpartition(":")
    if not colon:
        tag, summary = text, "last"
    if not tag or summary not in SUMMARIES:
        message = (
            f"{text!r} is not an objective: write eval, or a scalar such as {DEFAULT_TAG}, or a "
            f"scalar and one of {', '.join(SUMMARIES)}: {DEFAULT_TAG}:mean"
        )
        raise InvalidConfigError([Problem("", "CLI104", message)])
    return Objective(tag, summary)


def _end(curve: Curve) -> float:
    edge = curve.steps[-1] * (1 - _LAST_SHARE)
    recent = sum(1 for step in curve.steps if step > edge)
    fewest = min(_FEWEST_POINTS, math.ceil(len(curve.values) * _FEW_POINTS_SHARE))
    return fmean(curve.values[-max(recent, fewest) :])


def passed_rungs(progress: Progress) -> int:
    """How many tenths of the way a run has made, the end left out."""
    total = progress.total
    return min(int(progress.step * RUNGS // total), RUNGS - 1) if total else 0


def rungs(curve: Curve, total: int, reached: int, objective: Objective) -> dict[int, float]:
    """The value of the curve at each rung up to `reached`, from its first point on.

    A rung counts once the curve has a point beyond it. Until then points may still be on their way
    from the run, and the value would depend on how busy the machine is.
    """
    values: dict[int, float] = {}
    for rung in range(1, reached + 1):
        step = total * rung / RUNGS
        if not curve.steps or curve.steps[-1] <= step:
            break
        value = objective.score(curve.until(step))
        if value is not None:
            values[rung] = value
    return values


def joint_rungs(seeds: Sequence[dict[int, float]]) -> dict[int, float]:
    """The mean over seeds at every rung that all of them have passed."""
    common = set.intersection(*(set(passed) for passed in seeds)) if seeds else set()
    return {rung: fmean(passed[rung] for passed in seeds) for rung in sorted(common)}
