"""Numbers that stand for many runs, as `rliable` defines them (Agarwal et al., 2021).

Scores are one array for each environment, with one value for each seed. Environments may have
different numbers of seeds: one that failed leaves a gap in its own environment only.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Scores = Sequence[Floats]
Aggregate = Callable[[Scores], float]


def mean(scores: Scores) -> float:
    """The mean over environments of the mean over seeds."""
    return float(np.mean([np.mean(one) for one in scores]))


def median(scores: Scores) -> float:
    """The median over environments of the mean over seeds; of one environment, over seeds."""
    if len(scores) == 1:
        return float(np.median(scores[0]))
    return float(np.median([np.mean(one) for one in scores]))


def iqm(scores: Scores) -> float:
    """The interquartile mean: of all runs the mean of the middle half."""
    return float(trimmed_mean(np.concatenate(scores)))


def trimmed_mean(values: Floats) -> Floats:
    """The mean along the last axis without the lowest and the highest quarter."""
    count = values.shape[-1]
    cut = count // 4
    ordered = np.sort(values, axis=-1)
    kept: Floats = ordered[..., cut : count - cut].mean(axis=-1)
    return kept


def deviation(scores: Scores) -> float:
    """The sample standard deviation over seeds, pooled over environments; NaN of single seeds."""
    freedom = sum(len(one) - 1 for one in scores)
    if not freedom:
        return float("nan")
    squares = sum(float(np.sum((one - np.mean(one)) ** 2)) for one in scores)
    return float(np.sqrt(squares / freedom))


def optimality_gap(scores: Scores, target: float = 1.0) -> float:
    """How far the runs fall short of a target on average; more than the target counts as it."""
    return target - float(np.mean(np.minimum(np.concatenate(scores), target)))


def profile(scores: Scores, targets: Floats) -> Floats:
    """The share of runs above each target: a performance profile."""
    runs = np.concatenate(scores)
    shares: Floats = (runs[:, None] > targets).mean(axis=0)
    return shares


def probability_of_improvement(ours: Scores, theirs: Scores) -> float:
    """How likely a run of ours is better than one of theirs, averaged over environments.

    A tie counts half, which makes it the statistic of Mann and Whitney divided by all pairs.
    """
    shares = []
    for our, their in zip(ours, theirs, strict=True):
        wins = np.mean(our[:, None] > their) + np.mean(our[:, None] == their) / 2
        shares.append(float(wins))
    return float(np.mean(shares))


def normalised(scores: Scores, ranges: Sequence[tuple[float, float]]) -> list[Floats]:
    """Scores on a common scale: 0 is the low end of each environment's range, 1 the high end."""
    return [
        (one - low) / (high - low) if high > low else np.zeros_like(one)
        for one, (low, high) in zip(scores, ranges, strict=True)
    ]


AGGREGATES: Mapping[str, Aggregate] = {"mean": mean, "iqm": iqm, "median": median}
