"""Examples from recorded play: what any agent did in the episodes that it won."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from llm_worker.errors import RecordError
from llm_worker.model.examples import Example, reply_text
from llm_worker.play.records import StepRecord, read_steps


def from_recorded(path: Path) -> list[Example]:
    """The decisions of the won episodes in a run's `steps.jsonl`.

    Raises:
        RecordError: The file is damaged, or no episode in it was won.
    """
    found = list(won_decisions(read_steps(path)))
    if not found:
        raise RecordError(f"{path.name}: no episode was won, so there is nothing to imitate")
    return found


def won_decisions(steps: Sequence[StepRecord]) -> Iterator[Example]:
    """What was decided in episodes that ended with success.

    A default action that was taken because no answer was valid is no decision.
    """
    for _, episode in groupby(steps, key=lambda step: step.episode):
        taken = list(episode)
        if taken[-1].success:
            for step in taken:
                if step.valid:
                    yield Example(step.text, reply_text(step.reasoning, step.action_name))
