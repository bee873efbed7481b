"""Curves as arrays: growing, smoothing, reading."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mosaic.curves.members import Member, split_member
from mosaic.curves.thinning import Places, thin

Floats = NDArray[np.float64]
# More than a zoomed chart can show; without a bound a long run's curve would fill the memory.
KEEP_POINTS = 40_000
# Far below 308, where a float ends, so that sums of such values stay finite.
_SAFE_EXPONENT = 150


@dataclass
class Series:
    """One curve that grows at its end."""

    steps: Floats = field(default_factory=lambda: np.empty(0))
    values: Floats = field(default_factory=lambda: np.empty(0))
    walls: Floats = field(default_factory=lambda: np.empty(0))
    total_points: int = 0

    def extend(
        self, steps: Sequence[float], values: Sequence[float], walls: Sequence[float]
    ) -> None:
        """Append points; a curve that grew too long is thinned, its extremes kept."""
        self.steps = np.concatenate([self.steps, np.asarray(steps, float)])
        self.values = np.concatenate([self.values, np.asarray(values, float)])
        self.walls = np.concatenate([self.walls, np.asarray(walls, float)])
        if len(self.steps) > KEEP_POINTS:
            # To half of the limit, or each new point would thin the whole curve again.
            kept = thin(self.values, KEEP_POINTS // 2)
            self.steps, self.values, self.walls = (
                self.steps[kept],
                self.values[kept],
                self.walls[kept],
            )

    def __len__(self) -> int:
        return len(self.steps)


def joined(before: Sequence[tuple[Series, float]], last: Series) -> Series:
    """A curve with those that it continues in front of it.

    Args:
        before: Each with the step at which the next one takes over, the oldest first.
        last: The curve itself.
    """
    whole = Series(total_points=last.total_points)
    parts = [(one.steps, one.values, one.walls, until) for one, until in before]
    for steps, values, walls, until in (*parts, (last.steps, last.values, last.walls, math.inf)):
        # What a run did after the checkpoint that was continued from is another story.
        kept = steps <= until
        if len(whole) and kept.any():
            kept &= steps > whole.steps[-1]
        whole.extend(steps[kept].tolist(), values[kept].tolist(), walls[kept].tolist())
    return whole


def smooth(values: Floats, weight: float) -> Floats:
    """Exponential smoothing without the bias of its start; 0 changes nothing."""
    if weight <= 0 or len(values) < 2:
        return values
    known = np.flatnonzero(np.isfinite(values))
    if not len(known):
        return values
    smoothed = _smooth_known(values[known], weight)
    if len(known) == len(values):
        return smoothed
    before = np.searchsorted(known, np.arange(len(values)), side="right") - 1
    return np.where(before >= 0, smoothed[np.maximum(before, 0)], values)


def smooth_pieces(values: Floats, weight: float, starts: Sequence[int]) -> Floats:
    """Smoothing that begins again at some places: what comes after has nothing to do with before.

    Args:
        values: The whole curve.
        weight: As `smooth` takes it.
        starts: The places of the first values of all pieces but the first, in order.
    """
    if not len(starts):
        return smooth(values, weight)
    return np.concatenate([smooth(piece, weight) for piece in np.split(values, starts)])


def parted(x: Floats, y: Floats, places: Places, starts: Sequence[int]) -> tuple[Floats, Floats]:
    """A curve with a gap between its pieces.

    Args:
        x: What is drawn.
        y: Its values.
        places: Where each of its points is in the whole curve.
        starts: As `smooth_pieces` takes them.
    """
    piece = np.searchsorted(starts, places, side="right")
    gaps = np.flatnonzero(np.diff(piece)) + 1
    between = (x[gaps - 1] + x[gaps]) / 2
    return np.insert(x, gaps, between), np.insert(y, gaps, np.nan)


def _smooth_known(values: Floats, weight: float) -> Floats:
    """The same as a running mean `last = weight * last + (1 - weight) * value`, block by block.

    Within a block the recursion is a cumulative sum of values divided by growing powers of the
    weight; a block ends before those powers leave the range of a float.
    """
    size = max(1, int(_SAFE_EXPONENT / -math.log10(weight)))
    powers = weight ** np.arange(1, min(size, len(values)) + 1)
    means = np.empty_like(values)
    last = 0.0
    for start in range(0, len(values), size):
        part = values[start : start + size]
        scale = powers[: len(part)]
        means[start : start + size] = scale * (last + np.cumsum((1 - weight) * part / scale))
        last = means[start + len(part) - 1]
    return means / (1 - weight ** np.arange(1, len(values) + 1))


def drawn_value(x: Floats, y: Floats, at: float) -> float | None:
    """The value of the drawn point nearest to `at`; None where the curve is not."""
    if not len(x) or not x[0] <= at <= x[-1]:
        return None
    place = min(int(np.searchsorted(x, at)), len(x) - 1)
    if place and abs(x[place - 1] - at) < abs(x[place] - at):
        place -= 1
    value = float(y[place])
    return value if math.isfinite(value) else None


def as_csv(curves: Mapping[str, Series]) -> str:
    """Curves of one tag as CSV, one line a point."""
    lines = ["run,step,value,wall_time"]
    for name, series in curves.items():
        quoted = '"' + name.replace('"', '""') + '"'
        lines += [
            f"{quoted},{step:.0f},{value!r},{wall!r}"
            for step, value, wall in zip(
                series.steps.tolist(), series.values.tolist(), series.walls.tolist(), strict=True
            )
        ]
    return "\n".join(lines) + "\n"


def by_chart(curves: Mapping[str, Series]) -> dict[str, dict[Member | None, Series]]:
    """The curves of a run by the chart that shows them, and there by member.

    A run that trained several members, such as seeds, has a curve for each and one of their mean.
    The members are shown in one chart, without the mean: it would count as one more. Other curves
    belong to no member.
    """
    charts: dict[str, dict[Member | None, Series]] = {}
    for tag, series in curves.items():
        chart, member = split_member(tag)
        charts.setdefault(chart, {})[member] = series
    for members in charts.values():
        if len(members) > 1:
            members.pop(None, None)
    return charts
