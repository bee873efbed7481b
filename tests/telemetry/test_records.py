"""Which records the hub accepts, and that bad ones cost the good ones nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic.telemetry.records import (
    MAX_FRAME_BYTES,
    MAX_TEXT_BYTES,
    Kind,
    Reason,
    Sieve,
    records_of,
)
from mosaic.wire import trainer_pb2 as pb

RUN = "01JD0000000000000000000001"


def batch(*steps: pb.Step, run_id: str = RUN) -> pb.StepBatch:
    return pb.StepBatch(run_id=run_id, steps=steps)


def step(seq: int, **fields: object) -> pb.Step:
    return pb.Step(**{"seq": seq, "observation_json": "1", "at": 1.0, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (step(2, reward=float("nan")), Reason.NOT_A_NUMBER),
        (step(2, reward=float("inf")), Reason.NOT_A_NUMBER),
        (step(2, observation_json="[1.0, NaN]"), Reason.NOT_A_NUMBER),
        (step(2, info_json='{"x": -Infinity}'), Reason.NOT_A_NUMBER),
        (step(2, observation_json='"' + "x" * MAX_TEXT_BYTES + '"'), Reason.OVERSIZED),
        (step(2, frame=b"x" * (MAX_FRAME_BYTES + 1)), Reason.OVERSIZED),
        (step(1), Reason.DUPLICATE),
        (step(0), Reason.NO_SEQUENCE),
    ],
)
def test_a_bad_record_is_set_aside_and_its_neighbours_are_kept(
    bad: pb.Step, reason: Reason
) -> None:
    """One broken record never costs the records around it."""
    sieve = Sieve(RUN, Kind.STEPS)
    good, rejected = sieve.sift(batch(step(1), bad, step(3)))
    assert good is not None
    assert [r.seq for r in records_of(good)] == [1, 3]
    assert [r.reason for r in rejected] == [reason]
    assert sieve.counts == {reason: 1}


def test_the_word_nan_in_a_text_is_no_nan() -> None:
    """A mission that says NaN is a text like any other."""
    good, rejected = Sieve(RUN, Kind.STEPS).sift(
        batch(step(1, observation_json='{"mission": "find NaN and Infinity"}'))
    )
    assert good is not None
    assert not rejected


def test_records_of_another_run_are_refused_whole() -> None:
    """A stream cannot write into somebody else's run."""
    sieve = Sieve(RUN, Kind.STEPS)
    good, rejected = sieve.sift(batch(step(1), step(2), run_id="01JD0000000000000000000009"))
    assert good is None
    assert {r.reason for r in rejected} == {Reason.OTHER_RUN}
    assert sieve.last_seq == 0


def test_a_late_record_is_out_of_order_not_a_duplicate() -> None:
    """The two faults are told apart, because their causes are different."""
    sieve = Sieve(RUN, Kind.STEPS)
    sieve.sift(batch(step(1), step(5)))
    assert sieve.missing == 3
    _, rejected = sieve.sift(batch(step(3), step(5)))
    assert [r.reason for r in rejected] == [Reason.OUT_OF_ORDER, Reason.DUPLICATE]


@given(st.lists(st.integers(min_value=0, max_value=40), max_size=60), st.integers(1, 7))
def test_accepted_records_are_strictly_increasing_whatever_arrives(
    sequence: list[int], size: int
) -> None:
    """Viewers and the store never see a record twice or backwards."""
    sieve = Sieve(RUN, Kind.STEPS)
    accepted: list[int] = []
    rejected = 0
    for start in range(0, len(sequence), size):
        good, bad = sieve.sift(batch(*[step(s) for s in sequence[start : start + size]]))
        accepted += [r.seq for r in records_of(good)] if good is not None else []
        rejected += len(bad)
    assert accepted == sorted(set(accepted))
    assert len(accepted) + rejected == len(sequence)
