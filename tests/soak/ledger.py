"""What was asked for, what was done to it, and the verdict. Pure: it looks at nothing itself."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mosaic.records import RunRecord


@dataclass
class Intent:
    """One run that was asked for.

    Attributes:
        run_id: Given by us as the idempotency key, so a lost answer does not lose the run.
        kind: What kind of run it is, for the table.
        touched: Everything that was done to it. A run that nothing was done to has to complete.
        deleted: Whether it was moved to the trash.
    """

    run_id: str
    kind: str
    touched: list[str] = field(default_factory=list)
    deleted: bool = False


@dataclass(frozen=True)
class Story:
    """What the home says about one run at the end."""

    record: RunRecord
    event_kinds: Sequence[str]
    event_numbers: Sequence[int]


@dataclass
class Verdict:
    """Every list has to be empty."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    leaked: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """True if nothing was found."""
        return not (self.lost or self.doubled or self.leaked or self.stuck or self.wrong)


def judge(
    intents: Iterable[Intent], stories: Mapping[str, Story], leftovers: Sequence[str]
) -> Verdict:
    """Compare what was asked for with what the home holds.

    Args:
        intents: Every run that was submitted.
        stories: What the home knows, by run id, the trash included.
        leftovers: Processes, shared memory, slots and files that outlived their run.
    """
    verdict = Verdict(leaked=list(leftovers))
    asked = {intent.run_id: intent for intent in intents}
    verdict.doubled += [f"{run_id}: nobody asked for it" for run_id in stories.keys() - asked]
    for run_id, intent in asked.items():
        story = stories.get(run_id)
        if story is None:
            verdict.lost.append(f"{run_id} ({intent.kind}; {', '.join(intent.touched)})")
            continue
        _judge_one(intent, story, verdict)
    return verdict


def _judge_one(intent: Intent, story: Story, verdict: Verdict) -> None:
    record, label = story.record, f"{intent.run_id} ({intent.kind})"
    starts = story.event_kinds.count("spawned")
    if starts > 1:
        verdict.doubled.append(f"{label}: started {starts} times")
    if list(story.event_numbers) != list(range(1, len(story.event_numbers) + 1)):
        verdict.wrong.append(f"{label}: its events are not numbered without gaps")
    if not record.ended:
        verdict.stuck.append(f"{label}: {record.state}, {record.wait_reason or record.reason}")
    elif not intent.touched and not record.completed:
        verdict.wrong.append(f"{label}: untouched, yet {record.outcome}: {record.reason}")
