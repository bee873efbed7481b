"""What the episodes of agents say: shares, means and differences on the same seeds."""

import pytest

from mosaic.statistics.episodes import mean_interval, paired_difference, wilson


def test_shares_have_the_interval_of_the_textbook() -> None:
    """Wilson's interval of 95 of 100, and exact ends at none and at all."""
    assert wilson(95, 100) == pytest.approx((0.8882, 0.9785), abs=1e-4)
    assert wilson(0, 10).low == 0
    assert wilson(10, 10).high == 1
    assert wilson(0, 0) == (0, 1)


def test_means_have_an_interval_that_repeats() -> None:
    """The same returns have the same interval, around their mean; two say nothing."""
    values = [0.0, 1.0, 1.0, 0.5, 0.25]
    found = mean_interval(values)
    assert found is not None
    assert found == mean_interval(values)
    assert found.low < sum(values) / 5 < found.high
    assert mean_interval(values[:2]) is None


def test_agents_are_compared_on_the_seeds_that_both_played() -> None:
    """Hard worlds cancel: a constant lead has an interval of no width, whatever the worlds are."""
    theirs = {seed: float(seed % 7) for seed in range(20)}
    ours = {seed: score + 0.5 for seed, score in theirs.items() if seed >= 5} | {99: 100.0}
    found = paired_difference(ours, theirs)
    assert found is not None
    assert (found.seeds, found.mean) == (15, 0.5)
    assert found.interval == (0.5, 0.5)
    assert paired_difference({1: 0.0}, {2: 0.0}) is None
