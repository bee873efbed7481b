"""What a run has reported so far, in bounded memory."""

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from mosaic.health.known import KnownCurve

# Of a longer curve every second point is dropped: a run of weeks still has its beginning.
_MOST_POINTS = 256
_MOST_TAGS = 100


class Point(NamedTuple):
    """A number, the step it is of, and the time it was heard, in seconds of any clock."""

    step: int
    value: float
    at: float


class Series:
    """One curve."""

    def __init__(self) -> None:
        self.points: list[Point] = []

    def add(self, point: Point) -> None:
        """Note one more number; one of the same step replaces the last, which it repeats."""
        if self.points and self.points[-1].step == point.step:
            self.points.pop()
        self.points.append(point)
        if len(self.points) > _MOST_POINTS:
            del self.points[1:-1:2]

    @property
    def first(self) -> float:
        """Where it began; a curve has at least one point."""
        return self.points[0].value

    @property
    def newest(self) -> float:
        """Where it is."""
        return self.points[-1].value

    def since(self, step: int) -> list[Point]:
        """The points at or after a step."""
        return [point for point in self.points if point.step >= step]


class History:
    """All curves of a run.

    Args:
        known: What the run's algorithm is known to reach in its environment; None if no record is.

    Attributes:
        total: The steps of the whole schedule; 0 where the worker does not say.
    """

    def __init__(self, known: KnownCurve | None = None) -> None:
        self.known = known
        self.total = 0
        self._series: dict[str, Series] = {}
        self._first_step: int | None = None
        self._step = 0

    def add(self, step: int, total: int, values: Mapping[str, float], at: float) -> None:
        """Note one report of the worker."""
        if self._first_step is None:
            self._first_step = step
        self._step, self.total = step, total
        for tag, value in values.items():
            if tag in self._series or len(self._series) < _MOST_TAGS:
                self._series.setdefault(tag, Series()).add(Point(step, value, at))

    def get(self, tag: str) -> Series | None:
        """A curve, if the run reports it."""
        return self._series.get(tag)

    def any_of(self, tags: Sequence[str]) -> list[tuple[str, Series]]:
        """Those of the curves that the run reports."""
        return [(tag, self._series[tag]) for tag in tags if tag in self._series]

    @property
    def schedule(self) -> int:
        """The steps that this run takes itself, from where it began."""
        return max(0, self.total - (self._first_step or 0))

    @property
    def progress(self) -> float:
        """The share of its schedule that is done."""
        return (self._step - (self._first_step or 0)) / self.schedule if self.schedule else 0.0

    def lasting(
        self, series: Series, holds: Callable[[float], bool], least: int, share: float = 0.0
    ) -> list[Point]:
        """The end of a curve for which something holds without a break.

        Args:
            series: The curve.
            holds: What is asked of each value.
            least: The fewest points that count.
            share: The share of the whole schedule that they must cover.

        Returns:
            The points, the first of which is where it began; none if it does not last.
        """
        found: list[Point] = []
        for point in reversed(series.points):
            if not holds(point.value):
                break
            found.append(point)
        found.reverse()
        if len(found) < least:
            return []
        covers = found[-1].step - found[0].step >= share * self.schedule
        return found if not share or (self.schedule and covers) else []

    def lately(self, series: Series, share: float, least: int) -> list[Point]:
        """The end of a curve, over a share of the whole schedule.

        Returns:
            At least `least` points that cover it; none while there are fewer or it is shorter.
        """
        wanted = share * self.schedule
        points = series.points
        if not self.schedule or points[-1].step - points[0].step < wanted:
            return []
        found = series.since(int(points[-1].step - wanted))
        return found if len(found) >= least else []


def middle(points: Sequence[Point]) -> float:
    """The median of some points: one wild number is no trend."""
    return median(point.value for point in points)
