"""A run's event log as typed events: appended by the journal, read by recovery and clients."""

from collections.abc import Sequence
from pathlib import Path

from mosaic.errors import EventError, InvalidTransitionError, RunDamagedError
from mosaic.runs import eventlog
from mosaic.runs.eventlog import LogLine
from mosaic.system.shortage import shortage
from mosaic.trainer.core.eventcodec import decode, encode, number
from mosaic.trainer.core.folding import replay
from mosaic.trainer.core.states import Event, Run

# Seconds: in the 23rd century.
_LATEST = 2**33


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
    except (EventError, RecursionError) as error:
        kind = ascii(line.kind)[1:-1][:40] if isinstance(line.kind, str) else "no kind"
        raise RunDamagedError(
            f"run {run_id}: event {line.seq} ({kind}) of its log makes no sense: {error}"
        ) from None


def load(run_dir: Path, run_id: str = "", mend: bool = False) -> Run | None:
    """A run from its event log; None when there is no log.

    Args:
        run_dir: Where the log is.
        run_id: The run's id, where the folder has another name.
        mend: Cut off a damaged end, so that the log can continue.

    Raises:
        RunDamagedError: The log makes no sense.
        OSError: The machine is short of something; the log may be sound.
    """
    name = run_id or run_dir.name
    try:
        lines = eventlog.read(run_dir, mend)
    except OSError as error:
        if shortage(error):
            raise
        raise RunDamagedError(
            f"run {name}: its {eventlog.FILE_NAME} cannot be read: {error.strerror or error}"
        ) from None
    if not lines:
        return None
    try:
        run = replay(name, [from_line(name, line) for line in lines])
    except InvalidTransitionError as error:
        raise RunDamagedError(str(error)) from None
    _check(run)
    return run


def _check(run: Run) -> None:
    """Refuse numbers that no daemon writes and that everyone who shows the run would stumble on."""
    for moment in (run.created_at, run.started_at, run.finished_at):
        if not 0 <= moment < _LATEST:
            raise RunDamagedError(f"run {run.run_id}: {moment:g} is not a point in time")
    # The next daemon counts on from the largest epoch it finds.
    if not 0 <= run.epoch < _LATEST:
        raise RunDamagedError(f"run {run.run_id}: {run.epoch} is not an epoch")
