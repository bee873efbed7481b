"""The algorithms learn: a short real run gets far beyond the untrained policy."""

from __future__ import annotations

import pytest
from mutants.catalog import all_learning
from mutants.learning import Learning, file_of

QUICK = [case for case in all_learning() if not case.slow]


@pytest.mark.parametrize("case", QUICK, ids=str)
def test_a_short_run_learns(case: Learning) -> None:
    """Trained beats untrained by the stated factor, at the same seeds."""
    untrained = case.measure(file_of(case), learn=False)
    assert case.measure(file_of(case)) >= case.wanted(untrained)
