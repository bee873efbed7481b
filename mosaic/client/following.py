"""Following runs: the daemon pushes every change, and a daemon that restarts is found again."""

import time
from collections.abc import Callable, Iterator, Sequence

from mosaic.errors import (
    DaemonNotRunningError,
    NotOurDaemonError,
    RunNotFoundError,
    UnreachableError,
)
from mosaic.records import ChangesMissed, RunChange, RunRecord, RunRemoved, RunUpdated, SnapshotEnd

# Longer than a daemon takes to stop and start again, short enough for a person to wait for.
PATIENCE_S = 20.0
# Quick at first, because most daemons are back at once; then once a second, which costs nothing.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 1.0

Watch = Callable[[float | None], Iterator[RunChange]]


def follow(
    watch: Watch, reconnect: Callable[[], None], run_ids: Sequence[str], timeout_s: float | None
) -> Iterator[RunRecord]:
    """Runs as they are, then each again whenever it changes, until all have ended.

    Args:
        watch: Opens the daemon's stream of changes for a number of seconds.
        reconnect: Finds the daemon again after it went away.
        run_ids: For the text of a timeout.
        timeout_s: Give up after this long.

    Raises:
        RunNotFoundError: One of them was deleted.
        DaemonNotRunningError: The daemon went away and did not come back.
        TimeoutError: They have not ended in time.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    newest: dict[str, RunRecord] = {}
    while True:
        left = None if deadline is None else max(0.001, deadline - time.monotonic())
        try:
            # A new stream begins with the runs as they are, so nothing is lost between two.
            yield from _until_gap(watch(left), newest)
            if newest and all(record.ended for record in newest.values()):
                return
        except TimeoutError:
            raise TimeoutError(_still_live(newest, run_ids, timeout_s or 0.0)) from None
        except DaemonNotRunningError:
            reconnect()


def _until_gap(changes: Iterator[RunChange], newest: dict[str, RunRecord]) -> Iterator[RunRecord]:
    """Records of one stream; ends when all runs have ended or the stream has missed something."""
    complete = False
    for change in changes:
        match change:
            case RunUpdated(run=run):
                newest[run.run_id] = run
                yield run
            case RunRemoved(run_id=run_id):
                raise RunNotFoundError(f"run {run_id} was deleted")
            # Before it, runs that are still to come in the snapshot may be live.
            case SnapshotEnd():
                complete = True
            case ChangesMissed():
                return
        if complete and all(record.ended for record in newest.values()):
            return


def find_again(connect: Callable[[], None], patience_s: float) -> None:
    """Try to connect until it works or `patience_s` have passed.

    Raises:
        DaemonNotRunningError: It did not work; the text says what to do.
        UnreachableError: Its machine cannot be reached, and waiting would not help.
    """
    deadline, pause = time.monotonic() + patience_s, _FIRST_PAUSE_S
    while True:
        try:
            return connect()
        # During a restart another program may hold the port for a moment.
        except (DaemonNotRunningError, NotOurDaemonError, UnreachableError) as error:
            if not patience_s or (isinstance(error, UnreachableError) and error.final):
                raise
            if time.monotonic() + pause > deadline:
                raise DaemonNotRunningError(
                    f"the daemon went away and was not back within {patience_s:g} s ({error}); "
                    "the runs continue without it"
                ) from None
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def _still_live(newest: dict[str, RunRecord], run_ids: Sequence[str], timeout_s: float) -> str:
    states = [f"{record.run_id} is {record.state}" for record in newest.values() if record.live]
    return f"not ended within {timeout_s:g} s: {', '.join(states) or ', '.join(run_ids)}"
