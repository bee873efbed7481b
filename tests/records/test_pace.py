"""Which points of a long run a stored curve has."""

from mosaic.curves.pace import next_mark


def test_a_curve_grows_soon_and_stays_short() -> None:
    """A run of days has points after seconds, and no run has many more than 2,000."""
    for total in (1000, 50_000_000, 0):
        step, steps = 0, []
        while step < (total or 10_000_000):
            step = next_mark(step, total)
            steps.append(step)
        assert len(steps) < 6000, total
        assert len([early for early in steps if early <= 1000]) >= 100
