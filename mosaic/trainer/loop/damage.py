"""Runs whose files make no sense: shown with the reason, for people to delete or repair.

A damaged run has a row but no events: nothing can be added to a log that cannot be read. So its row
is made from what can be known, again at each start of a daemon, until someone repairs the files.
"""

import errno
import os
from dataclasses import replace
from pathlib import Path

from mosaic.config.paths import Home
from mosaic.errors import InvalidTransitionError
from mosaic.records.run import Outcome
from mosaic.runs import ids
from mosaic.system import processes
from mosaic.trainer.core.states import Run, State
from mosaic.trainer.core.stimuli import DeleteRequested, RestoreRequested, Stimulus

_LONGEST_REASON = 500


def damaged_run(run_dir: Path, problem: str) -> Run:
    """The row of a run of which no more is known than its directory and what is wrong with it."""
    return as_damaged(
        Run(
            run_dir.name,
            created_at=ids.created_at(run_dir.name),
            deleted=run_dir.parent.name == "trash",
        ),
        problem,
    )


def as_damaged(run: Run, problem: str) -> Run:
    """The same run, known to be damaged."""
    plain = problem.encode(errors="replace").decode()[:_LONGEST_REASON]
    return replace(
        run,
        state=State.TERM,
        outcome=Outcome.DAMAGED.value,
        reason=plain.removeprefix(f"run {run.run_id}: "),
        slots=(),
    )


def describe(error: Exception) -> str:
    """What is wrong, in words."""
    if isinstance(error, OSError):
        what = "its folder is not one" if error.errno == errno.ENOTDIR else "it cannot be read"
        return f"{what}: {error.strerror or error}"
    return str(error) or type(error).__name__


def end_processes(run_id: str) -> None:
    """Kill what is left of a run that no daemon can manage: it would hold its slots unseen."""
    if processes.marked_processes(run_id):
        processes.kill_marked(run_id)


def handle(home: Home, run: Run, stimulus: Stimulus) -> Run:
    """Do to a damaged run what can be done to one: move it to the trash or out of it.

    Raises:
        InvalidTransitionError: Anything else was asked.
    """
    match stimulus:
        case DeleteRequested():
            if not stimulus.purge and not run.deleted:
                return _moved(home, run, deleted=True)
            return run
        case RestoreRequested():
            return _moved(home, run, deleted=False) if run.deleted else run
    raise InvalidTransitionError(
        f"run {run.run_id} is damaged ({run.reason}); delete it: mosaic delete {run.run_id}, "
        "or repair its files and start the daemon again"
    )


def _moved(home: Home, run: Run, deleted: bool) -> Run:
    places = (home.runs / run.run_id, home.trash / run.run_id)
    source, target = places if deleted else places[::-1]
    os.rename(source, target)
    return replace(run, deleted=deleted)
