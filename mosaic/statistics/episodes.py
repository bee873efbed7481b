"""What the episodes of one fixed agent say: shares, means, and differences on the same seeds.

Unlike the rest of this package, an episode is the observation here: the agents do not learn, so
that the next episode is drawn like the last one.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypedDict

import numpy as np

from mosaic.statistics.aggregates import trimmed_mean
from mosaic.statistics.intervals import CONFIDENCE, RESAMPLES, Interval, interval

# The quantile of the normal distribution that belongs to a confidence of 95 %.
_Z = 1.959964


class PairedDifference(NamedTuple):
    """How much better one agent is than another on the seeds that both have played."""

    seeds: int
    mean: float
    interval: Interval | None


class ReturnSummary(TypedDict):
    """The numbers of `eval_summary.json` that every worker writes the same way."""

    mean: float
    std: float
    min: float
    max: float
    median: float
    iqm: float
    iqm_confidence_interval: list[float]


def summarise_returns(returns: Sequence[float], seed: int) -> ReturnSummary:
    """Mean, spread and interquartile mean of an evaluation's episodes.

    Args:
        returns: One number for each episode.
        seed: For drawing the episodes again.
    """
    values = np.asarray(returns, float)
    # All draws at once: an evaluation may have thousands of episodes, and is summarised each round.
    drawn = np.random.default_rng(seed).integers(len(values), size=(RESAMPLES, len(values)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(trimmed_mean(values[drawn]), [tail, 1 - tail])
    return {
        "mean": float(values.mean()),
        "std": float(values.std()),
        "min": float(values.min()),
        "max": float(values.max()),
        "median": float(np.median(values)),
        "iqm": float(trimmed_mean(values)),
        "iqm_confidence_interval": [float(low), float(high)],
    }


def wilson(successes: int, trials: int) -> Interval:
    """The interval of a share, which is honest for few trials and for shares near 0 and 1."""
    if not trials:
        return Interval(0.0, 1.0)
    share, z2 = successes / trials, _Z**2
    scale = 1 + z2 / trials
    middle = (share + z2 / (2 * trials)) / scale
    spread = _Z * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2)) / scale
    # At 0 and 1 one end is exact; rounding must not move it.
    low = 0.0 if successes == 0 else max(0.0, middle - spread)
    high = 1.0 if successes == trials else min(1.0, middle + spread)
    return Interval(low, high)


def mean_interval(values: Sequence[float]) -> Interval | None:
    """The bootstrap interval of a mean; None for fewer than three values."""
    return interval(_mean, [np.asarray(values, float)])


def paired_difference(
    ours: Mapping[int, float], theirs: Mapping[int, float]
) -> PairedDifference | None:
    """The mean difference by seed; None when no seed was played by both.

    Two agents that met the same worlds are compared world by world: what makes a world hard is
    hard for both, and cancels.
    """
    shared = sorted(ours.keys() & theirs.keys())
    if not shared:
        return None
    differences = [ours[seed] - theirs[seed] for seed in shared]
    return PairedDifference(
        len(shared), sum(differences) / len(differences), mean_interval(differences)
    )


def _mean(scores: Sequence[np.ndarray]) -> float:
    return float(scores[0].mean())
