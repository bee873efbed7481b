"""Which checkpoints a run keeps, by the words that people type."""

import pytest

from mosaic.config.keeping import KeepPolicy

SAVED = {60: 5.0, 105: 7.0, 160: 9.0, 201: 9.0, 255: 1.0, 310: None, 390: 3.0}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("last:2", {310, 390}),
        ("2", {310, 390}),
        (3, {255, 310, 390}),
        ("best", {201, 390}),
        ("every:100", {105, 201, 310, 390}),
        ("every:100,best,last:2", {105, 201, 310, 390}),
        ("best, last:1", {201, 390}),
        ("every:1000", {390}),
        ("last:99", set(SAVED)),
    ],
)
def test_what_is_kept(text: str | int, kept: set[int]) -> None:
    """The newest always stays; `every` keeps the first of each stretch; `best` the highest."""
    assert KeepPolicy.parse(text).kept(SAVED) == kept


def test_pruning_again_and_again_keeps_what_pruning_once_would() -> None:
    """A run prunes after each save; what `every` and `best` keep must survive all of them."""
    policy = KeepPolicy.parse("every:100,best,last:1")
    left: dict[int, float | None] = {}
    for step, score in SAVED.items():
        left[step] = score
        left = {kept: left[kept] for kept in policy.kept(left)}
    assert set(left) == policy.kept(SAVED)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("all", "give one or more of last:K, every:N and best"),
        ("", "names no checkpoints to keep"),
        ("last", "names no checkpoints"),
        ("last:0", "keeps 1 to 1,000 checkpoints, not 0"),
        ("0", "keeps 1 to 1,000"),
        ("every:0", "at least 1"),
        ("every:1e5", "names no checkpoints"),
        ("best:2", "names no checkpoints"),
        ("last:1,last:2", "'last' is given twice"),
        (True, "names no checkpoints"),
    ],
)
def test_what_is_refused(text: str | int, sentence: str) -> None:
    """A policy that says nothing is refused with what is allowed."""
    with pytest.raises(ValueError, match=sentence):
        KeepPolicy.parse(text)


def test_the_next_save_is_the_next_multiple() -> None:
    """`every:N` saves at these steps, also in a run that is faster than the clock."""
    policy = KeepPolicy.parse("every:100")
    assert [policy.next_save(step) for step in (0, 99, 100, 250)] == [100, 100, 200, 300]
    assert KeepPolicy.parse("best").next_save(5) is None
