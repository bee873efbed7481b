"""Curves of several seeds together: the middle, the interval around it, the way to a target."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mosaic.statistics.aggregates import Floats, trimmed_mean
from mosaic.statistics.intervals import CONFIDENCE, FEWEST_SEEDS

# Curves of several seeds have different steps; they meet on a grid of this many.
GRID_POINTS = 400
# A band is looked at, and drawn again while it grows: enough for a quiet edge.
_RESAMPLES = 500

MEAN, IQM = "mean", "iqm"
BOOTSTRAP, DEVIATION = "ci", "sd"
MIDDLES = {MEAN: "mean", IQM: "IQM"}
SPREADS = {BOOTSTRAP: "95 % bootstrap interval over seeds", DEVIATION: "± standard deviation"}

Curve = tuple[Floats, Floats]
Integers = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


@dataclass(frozen=True)
class Band:
    """The middle of several curves and what lies around it.

    Attributes:
        x: The steps at which at least two curves have values.
        middle: The mean or interquartile mean of the curves there.
        low: The lower edge; the middle itself if there are too few curves for an interval.
        high: The upper edge.
        counts: How many curves each step has: fewer where some ended early.
        seeds: How many curves there are.
    """

    x: Floats
    middle: Floats
    low: Floats
    high: Floats
    counts: Floats
    seeds: int

    @property
    def shows_nothing(self) -> bool:
        """Whether there are too few seeds for a conclusion."""
        return self.seeds < FEWEST_SEEDS

    @property
    def shortest(self) -> float:
        """The last step that all curves have reached."""
        whole = np.flatnonzero(self.counts == self.seeds)
        return float(self.x[whole[-1]]) if len(whole) else float("nan")


def band(curves: Sequence[Curve], middle: str = MEAN, spread: str = BOOTSTRAP) -> Band | None:
    """The middle of several curves with an interval; None if no step has two of them.

    Curves that end early count as long as they last; they are never continued.
    """
    usable = [(x, y) for x, y in curves if len(x) >= 2]
    if len(usable) < 2:
        return None
    start, end = min(float(x[0]) for x, _ in usable), max(float(x[-1]) for x, _ in usable)
    grid = np.linspace(start, end, GRID_POINTS)
    rows = np.full((len(usable), GRID_POINTS), np.nan)
    for place, (x, y) in enumerate(usable):
        inside = (grid >= x[0]) & (grid <= x[-1])
        rows[place, inside] = np.interp(grid[inside], x, y)
    there = ~np.isnan(rows)
    shared = there.sum(axis=0) >= 2
    if not shared.any():
        return None
    grid, rows, there = grid[shared], rows[:, shared], there[:, shared]
    middles, lows, highs = (np.empty(len(grid)) for _ in range(3))
    # Steps that the same curves have reached are computed together.
    _, kinds = np.unique(there, axis=1, return_inverse=True)
    for kind in range(int(kinds.max()) + 1):
        at = np.flatnonzero(kinds.ravel() == kind)
        values = rows[np.ix_(there[:, at[0]], at)].T
        middles[at], lows[at], highs[at] = _summary(values, middle, spread)
    counts = there.sum(axis=0).astype(float)
    return Band(grid, middles, lows, highs, counts, len(usable))


def _summary(values: Floats, middle: str, spread: str) -> tuple[Floats, Floats, Floats]:
    """The middle and both edges of each row, whose columns are seeds."""
    count = values.shape[1]
    centre = _middle(values, middle)
    if spread == DEVIATION:
        width = values.std(axis=1, ddof=1)
        return centre, centre - width, centre + width
    if count < FEWEST_SEEDS:
        return centre, centre, centre
    chosen = np.random.RandomState(0).randint(0, count, (_RESAMPLES, count))
    # Whole seeds are drawn: the values of one seed at neighbouring steps belong together.
    places = chosen + count * np.arange(_RESAMPLES)[:, None]
    often = np.bincount(places.ravel(), minlength=_RESAMPLES * count).reshape(-1, count)
    # How often each seed was drawn says all that a mean needs, in one product of matrices.
    draws = _resampled_iqms(values, often) if middle == IQM else often @ values.T / count
    tail = (1 - CONFIDENCE) / 2 * 100
    low, high = np.percentile(draws, [tail, 100 - tail], axis=0)
    return centre, low, high


def _resampled_iqms(values: Floats, often: Integers) -> Floats:
    """What `trimmed_mean` gives for each resample of each row; each row is sorted only once.

    Args:
        values: A row for each step, a column for each seed.
        often: How often each seed is in each resample.
    """
    count = values.shape[1]
    cut = count // 4
    columns = np.ascontiguousarray(often.T, dtype=float)
    draws = np.empty((len(often), len(values)))
    for place, row in enumerate(values):
        order = np.argsort(row)
        ordered = row[order]
        # Of a resample in order, what lies between the cuts: each seed has the places from the end
        # of the seed before to its own end. The sum is taken by parts, over gaps between seeds.
        ends = columns[order[:-1]].cumsum(axis=0).clip(cut, count - cut)
        whole = (count - cut) * ordered[-1] - cut * ordered[0] - np.diff(ordered) @ ends
        draws[:, place] = whole / (count - 2 * cut)
    return draws


def _middle(values: Floats, middle: str) -> Floats:
    if middle == IQM:
        return trimmed_mean(values)
    centre: Floats = values.mean(axis=1)
    return centre


def value_at(curve: Curve, step: float) -> float | None:
    """The last value that a curve has at or before a step; None before its first."""
    place = int(np.searchsorted(curve[0], step, side="right")) - 1
    return float(curve[1][place]) if place >= 0 else None


def steps_to(curve: Curve, target: float, *, falling: bool = False) -> float | None:
    """The first step at which a curve reaches a target; None if it never does."""
    steps, values = curve
    reached = np.flatnonzero(values <= target if falling else values >= target)
    return float(steps[reached[0]]) if len(reached) else None
