"""Could the difference between two groups be chance? A permutation test, which assumes nothing."""

import itertools
import math
from collections.abc import Iterator

import numpy as np

from mosaic.statistics.aggregates import Floats, Scores

# Up to so many arrangements all are tried, and the result is exact.
_MOST_EXACT = 20_000
_RANDOM_ARRANGEMENTS = 10_000
# Sums in another order differ in their last digits; equal differences must count as equal.
_TOLERANCE = 1e-12


def permutation_test(ours: Scores, theirs: Scores, seed: int = 0) -> float:
    """The probability of a difference of means at least this large if the groups were the same.

    Runs are exchanged between the groups within each environment. Two-sided.
    """
    pooled = [np.concatenate([our, their]) for our, their in zip(ours, theirs, strict=True)]
    sizes = [len(our) for our in ours]
    scale = max(float(np.abs(one).max(initial=0.0)) for one in pooled) or 1.0
    found = abs(_difference(ours, theirs)) - _TOLERANCE * scale
    total = math.prod(math.comb(len(one), size) for one, size in zip(pooled, sizes, strict=True))
    if total <= _MOST_EXACT:
        differences = list(_every_difference(pooled, sizes))
        return sum(abs(one) >= found for one in differences) / len(differences)
    random = np.random.RandomState(seed)
    hits = sum(
        abs(_shuffled_difference(pooled, sizes, random)) >= found
        for _ in range(_RANDOM_ARRANGEMENTS)
    )
    # The arrangement that was found is one of them: a probability is never 0.
    return (hits + 1) / (_RANDOM_ARRANGEMENTS + 1)


def _difference(ours: Scores, theirs: Scores) -> float:
    means = [float(np.mean(our) - np.mean(their)) for our, their in zip(ours, theirs, strict=True)]
    return float(np.mean(means))


def _every_difference(pooled: list[Floats], sizes: list[int]) -> Iterator[float]:
    per_environment = []
    for values, size in zip(pooled, sizes, strict=True):
        total, rest = values.sum(), len(values) - size
        sums = [
            values[list(chosen)].sum()
            for chosen in itertools.combinations(range(len(values)), size)
        ]
        per_environment.append([one / size - (total - one) / rest for one in sums])
    for combination in itertools.product(*per_environment):
        yield sum(combination) / len(combination)


def _shuffled_difference(
    pooled: list[Floats], sizes: list[int], random: np.random.RandomState
) -> float:
    shuffled = [random.permutation(values) for values in pooled]
    ours = [values[:size] for values, size in zip(shuffled, sizes, strict=True)]
    theirs = [values[size:] for values, size in zip(shuffled, sizes, strict=True)]
    return _difference(ours, theirs)
