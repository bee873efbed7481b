"""The ledger of a soak sees every kind of loss; a soak that cannot fail would prove nothing."""

from dataclasses import replace

from mosaic.records import Outcome, RunRecord, State
from soak.ledger import Intent, Story, judge

RECORD = RunRecord(run_id="A", state=State.TERM, outcome=Outcome.COMPLETED)
WHOLE = Story(RECORD, ("submitted", "spawned", "settled"), (1, 2, 3))


def test_a_run_that_completed_is_no_finding() -> None:
    """Nothing is reported when everything that was asked for is there and done."""
    assert judge([Intent("A", "ppo")], {"A": WHOLE}, []).clean


def test_a_missing_run_is_lost() -> None:
    """A run that was accepted and that no one knows any more is lost."""
    assert judge([Intent("A", "ppo")], {}, []).lost


def test_a_second_start_and_an_unasked_run_are_doubled() -> None:
    """One request gives one run with one worker."""
    twice = replace(WHOLE, event_kinds=("submitted", "spawned", "spawned"))
    assert judge([Intent("A", "ppo")], {"A": twice}, []).doubled
    assert judge([], {"A": WHOLE}, []).doubled


def test_a_run_that_does_not_end_is_stuck() -> None:
    """Every run comes to an end."""
    running = replace(WHOLE, record=RunRecord(run_id="A", state=State.EXEC))
    assert judge([Intent("A", "ppo")], {"A": running}, []).stuck


def test_an_untouched_run_has_to_complete() -> None:
    """What happens to one run does not fail another."""
    failed = RunRecord(run_id="A", state=State.TERM, outcome=Outcome.FAILED)
    story = replace(WHOLE, record=failed)
    assert judge([Intent("A", "ppo")], {"A": story}, []).wrong
    assert judge([Intent("A", "ppo", touched=["cancel"])], {"A": story}, []).clean


def test_a_gap_in_the_events_and_a_leftover_are_found() -> None:
    """Events are numbered without gaps, and nothing outlives its run."""
    gap = replace(WHOLE, event_numbers=(1, 3))
    assert judge([Intent("A", "ppo")], {"A": gap}, []).wrong
    assert judge([], {}, ["process 1 python"]).leaked
