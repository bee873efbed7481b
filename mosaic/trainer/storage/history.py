"""A run's event log as typed events: appended by the journal, read by recovery and clients."""

from collections.abc import Sequence
from pathlib import Path

from mosaic.errors import EventError, InvalidTransitionError, RunDamagedError
from mosaic.runs import eventlog
from mosaic.runs.eventlog import LogLine
from mosaic.trainer.core.eventcodec import decode, encode, number
from mosaic.trainer.core.states import Event, Run, replay


def append(run_dir: Path, events: Sequence[Event]) -> None:
    """Add events durably.

    Raises:
        OSError: The disk refuses; nothing was written.
    """
    eventlog.append(run_dir, [to_line(event) for event in events])


def to_line(event: Event) -> LogLine:
    """An event as the log stores it."""
    kind, data = encode(event.what)
    return LogLine(event.seq, kind, event.at, event.mono, data)


def from_line(run_id: str, line: LogLine) -> Event:
    """A stored event, checked as strictly as if we had just made it.

    Raises:
        RunDamagedError: Naming the run, the event and the field.
    """
    try:
        for name, moment in (("at", line.at), ("mono", line.mono)):
            try:
                number(moment)
            except ValueError as error:
                raise EventError(f"{name}: {error}") from None
        return Event(line.seq, line.at, line.mono, decode(line.kind, line.data))
    except EventError as error:
        kind = str(line.kind)[:40]
        raise RunDamagedError(
            f"run {run_id}: event {line.seq} ({kind}) of its log makes no sense: {error}"
        ) from None


def load(run_dir: Path, run_id: str = "") -> Run | None:
    """A run from its event log; None when there is no log.

    Args:
        run_dir: Where the log is.
        run_id: The run's id, where the folder has another name.

    Raises:
        RunDamagedError: The log makes no sense.
    """
    name = run_id or run_dir.name
    events = [from_line(name, line) for line in eventlog.read(run_dir)]
    if not events:
        return None
    try:
        return replay(name, events)
    except InvalidTransitionError as error:
        raise RunDamagedError(str(error)) from None
