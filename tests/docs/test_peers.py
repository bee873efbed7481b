"""A comparison with a peer says "worse" when ours is, and never mixes two versions of our code."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.learning import peers

CASE = peers.COMPARISONS[0]


def _record(ours: list[float], theirs: list[float]) -> dict[str, Any]:
    record = peers.begun(CASE, None)
    for side, returns in ((peers.OURS, ours), (peers.THEIRS, theirs)):
        record["returns"][side] = {str(seed): one for seed, one in enumerate(returns, 1)}
    return record


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        ([1, 2, 3, 4, 5], [11, 12, 13, 14, 15], "worse"),
        ([11, 12, 13, 14, 15], [1, 2, 3, 4, 5], "better"),
        ([1, 12, 3, 14, 5], [2, 11, 4, 13, 6], "no difference"),
    ],
)
def test_the_verdict_is_that_of_the_returns(
    ours: list[float], theirs: list[float], verdict: str
) -> None:
    """Five seeds that are all below the peer's are worse, and seeds that mix are not."""
    assert verdict in peers.said(_record(ours, theirs))


def test_only_whole_comparisons_count() -> None:
    """A seed that is missing on one side may be the one that fails: the table waits for it."""
    assert peers.is_whole(_record([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]))
    assert not peers.is_whole(_record([1, 2, 3, 4, 5], [1, 2, 3, 4]))


def test_what_older_code_has_shown_is_not_continued() -> None:
    """Seeds of two versions of an algorithm are no sample of either."""
    before = _record([1, 2], [1, 2])
    assert peers.begun(CASE, before)["returns"] == before["returns"]
    older = {**before, "code": "0123456789abcdef"}
    assert peers.begun(CASE, older)["returns"] == {peers.OURS: {}, peers.THEIRS: {}}
