"""Our statistics are those of `rliable`, on the same data and with the same draws."""

from collections.abc import Callable

import numpy as np
import pytest
from rliable import library, metrics

from mosaic.statistics import aggregates
from mosaic.statistics.aggregates import Floats, Scores
from mosaic.statistics.intervals import bootstrap

RESAMPLES = 100


def _normal(random: np.random.RandomState, seeds: int) -> Floats:
    return random.normal(0.5, 0.2, (seeds, 6))


def _skewed(random: np.random.RandomState, seeds: int) -> Floats:
    return random.lognormal(0.0, 1.5, (seeds, 12))


def _tied(random: np.random.RandomState, seeds: int) -> Floats:
    return random.randint(0, 4, (seeds, 3)).astype(float) / 3


DATA: dict[str, Callable[[np.random.RandomState, int], Floats]] = {
    "normal": _normal,
    "skewed, many environments": _skewed,
    "with ties": _tied,
}


def _columns(table: Floats) -> Scores:
    return list(table.T)


@pytest.mark.parametrize("kind", DATA)
def test_aggregates_profiles_and_their_intervals_are_rliables(kind: str) -> None:
    """Mean, median, IQM, optimality gap and performance profile agree to nine digits."""
    table = DATA[kind](np.random.RandomState(3), 5)
    targets = np.linspace(0, 1, 9)

    def theirs(scores: Floats) -> Floats:
        numbers = [
            metrics.aggregate_mean(scores),
            metrics.aggregate_median(scores),
            metrics.aggregate_iqm(scores),
            metrics.aggregate_optimality_gap(scores),
        ]
        return np.concatenate([numbers, library.score_distributions(scores, targets)])

    def ours(scores: Scores) -> Floats:
        numbers = [
            aggregates.mean(scores),
            aggregates.median(scores),
            aggregates.iqm(scores),
            aggregates.optimality_gap(scores),
        ]
        return np.concatenate([numbers, aggregates.profile(scores, targets)])

    np.random.seed(11)
    points, ends = library.get_interval_estimates({"a": table}, theirs, reps=RESAMPLES)
    low, high = bootstrap(ours, _columns(table), resamples=RESAMPLES, seed=11)
    np.testing.assert_allclose(ours(_columns(table)), points["a"], rtol=1e-9)
    np.testing.assert_allclose(np.stack([low, high]), ends["a"], rtol=1e-9)


@pytest.mark.parametrize("kind", DATA)
def test_the_probability_of_improvement_is_rliables(kind: str) -> None:
    """Also with different numbers of seeds, and with ties."""
    random = np.random.RandomState(5)
    table, other = DATA[kind](random, 5), DATA[kind](random, 4)

    def theirs(x: Floats, y: Floats) -> Floats:
        return np.array([metrics.probability_of_improvement(x, y)])

    np.random.seed(7)
    points, ends = library.get_interval_estimates({"a": [table, other]}, theirs, reps=RESAMPLES)
    improvement = aggregates.probability_of_improvement
    low, high = bootstrap(
        improvement, _columns(table), _columns(other), resamples=RESAMPLES, seed=7
    )
    assert improvement(_columns(table), _columns(other)) == pytest.approx(points["a"][0], rel=1e-9)
    np.testing.assert_allclose([low, high], ends["a"].ravel(), rtol=1e-9)
