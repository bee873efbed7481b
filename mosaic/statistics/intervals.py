"""Confidence intervals by a stratified bootstrap over seeds, as `rliable` makes them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mosaic.statistics.aggregates import Floats, Scores

CONFIDENCE = 0.95
RESAMPLES = 2000
# With fewer seeds no interval says anything: two draws from two runs are three possible results.
FEWEST_SEEDS = 3


class Interval(NamedTuple):
    """Where a number lies with a confidence of 95 %."""

    low: float
    high: float


def bootstrap(
    statistic: Callable[..., float | Floats],
    *groups: Scores,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[Floats, Floats]:
    """The lower and the upper end of a statistic's interval.

    Seeds are drawn with replacement within each environment of each group, so that every
    environment keeps its weight.

    Args:
        statistic: A number, or an array of numbers, of as many groups as are given.
        groups: The scores of each group.
        resamples: How often the seeds are drawn again.
        seed: Of the draws. The same data always have the same interval.
    """
    # The old generator, because its stream is frozen: the ends stay the same to the last digit
    # with every version of NumPy.
    random = np.random.RandomState(seed)
    results = [statistic(*(_drawn(scores, random) for scores in groups)) for _ in range(resamples)]
    tail = (1 - CONFIDENCE) / 2 * 100
    low, high = np.percentile(np.asarray(results, float), [tail, 100 - tail], axis=0)
    return low, high


def interval(
    statistic: Callable[..., float], *groups: Scores, resamples: int = RESAMPLES, seed: int = 0
) -> Interval | None:
    """The interval of one number; None if an environment has fewer than three seeds."""
    if any(len(one) < FEWEST_SEEDS for scores in groups for one in scores):
        return None
    low, high = bootstrap(statistic, *groups, resamples=resamples, seed=seed)
    return Interval(float(low), float(high))


def _drawn(scores: Scores, random: np.random.RandomState) -> Sequence[Floats]:
    counts = {len(one) for one in scores}
    if len(counts) == 1:
        count = counts.pop()
        # One draw for the whole table, in the order in which `rliable` draws.
        chosen = random.randint(0, count, (count, len(scores)))
        return [one[chosen[:, place]] for place, one in enumerate(scores)]
    return [one[random.randint(0, len(one), len(one))] for one in scores]
