"""What happens to runs: the changes that WatchRuns pushes, and the events in a run's log."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from mosaic.records.fields import Record
from mosaic.records.run import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChange(Record):
    """One message of `watch`. To resume after it, pass its `generation` and `sequence`."""

    kind: ClassVar[str] = ""

    generation: Annotated[str, "A new one means: forget what you know."]
    sequence: Annotated[int, "Grows with every change."]

    def to_dict(self) -> dict[str, object]:
        """Plain data, its `kind` first."""
        return {"kind": self.kind, **super(RunChange, self).to_dict()}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUpdated(RunChange):
    """A run is new or has changed."""

    kind: ClassVar[str] = "run"

    run: Annotated[RunRecord, "The run as it is now."]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRemoved(RunChange):
    """A run was deleted."""

    kind: ClassVar[str] = "removed"

    run_id: Annotated[str, "The deleted run."]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotEnd(RunChange):
    """All runs have been sent; what follows is news."""

    kind: ClassVar[str] = "snapshot_end"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesMissed(RunChange):
    """The reader was too slow and missed changes. Watch again from `since`."""

    kind: ClassVar[str] = "gap"

    since: Annotated[int, "The last sequence that was delivered."]
    until: Annotated[int, "The last sequence that was missed."]

    def to_dict(self) -> dict[str, object]:
        """Plain data; on the command line the bounds are called `from` and `to`."""
        plain = super(ChangesMissed, self).to_dict()
        return {**plain, "from": plain.pop("since"), "to": plain.pop("until")}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent(Record):
    """One line of a run's event log."""

    seq: Annotated[int, "Dense within the run, from 1."]
    at: Annotated[float, "When it happened."]
    kind: Annotated[str, "What happened."]
    state: Annotated[str, "State of the run after it."]
    data: Annotated[Mapping[str, object], "What this kind of event says."]
