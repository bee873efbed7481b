"""What a run's state is called, which icon and colour it has, and what may be done with it."""

from dataclasses import dataclass

from mosaic.presenting.actor import TAKE_OVER
from mosaic.records import Outcome, RunRecord, State

_PENDING_MARK = "pending-"


@dataclass(frozen=True)
class Status:
    """How a run's state is shown: never by colour alone.

    Attributes:
        label: The word.
        icon: Name of the icon.
        tone: Name of a theme colour.
        rank: Order when sorting by state: what needs attention first.
    """

    label: str
    icon: str
    tone: str
    rank: int


_LIVE = {
    State.INIT: Status("Queued", "clock", "muted", 3),
    State.HSHK: Status("Starting", "clock", "info", 2),
    State.RDY: Status("Starting", "clock", "info", 2),
    State.EXEC: Status("Running", "play", "accent", 1),
    State.PAUSE: Status("Paused", "pause", "warning", 4),
    State.FAULT: Status("Ending", "warning", "danger", 0),
}
_ENDED = {
    Outcome.COMPLETED: Status("Completed", "check", "success", 6),
    Outcome.FAILED: Status("Failed", "cross", "danger", 5),
    Outcome.CANCELLED: Status("Cancelled", "stop", "muted", 7),
    Outcome.TIME_LIMIT: Status("Time limit", "clock", "warning", 7),
    Outcome.BUDGET: Status("Budget spent", "clock", "warning", 7),
    Outcome.LOST: Status("Lost", "question", "danger", 5),
    Outcome.INTERRUPTED: Status("Interrupted", "stop", "warning", 7),
    Outcome.DAMAGED: Status("Damaged", "warning", "danger", 5),
}
_UNKNOWN = Status("Ended", "stop", "muted", 8)
_PENDING = Status("Sending …", "clock", "muted", 0)
_STALLED = Status("Stalled", "warning", "warning", 0)
_STOPPING = Status("Stopping", "stop", "warning", 0)
_GONE_WRONG = (Outcome.FAILED, Outcome.LOST, Outcome.TIME_LIMIT, Outcome.BUDGET, Outcome.DAMAGED)


def status_of(run: RunRecord) -> Status:
    """How to show a run's state."""
    if not is_real(run):
        return _PENDING
    if run.outcome is not None:
        return _ENDED[run.outcome]
    if run.stopping:
        return _STOPPING
    if run.stalled:
        return _STALLED
    return _LIVE.get(run.state, _UNKNOWN)


def pending_id(number: int) -> str:
    """The id of a row for a run that the daemon has not confirmed yet."""
    return f"{_PENDING_MARK}{number}"


def is_real(run: RunRecord) -> bool:
    """Whether the daemon knows the run; a row just sent is not there yet."""
    return not run.run_id.startswith(_PENDING_MARK)


def can_pause(run: RunRecord) -> bool:
    """Whether pausing makes sense."""
    return is_real(run) and run.is_running and not run.stopping


def can_resume(run: RunRecord) -> bool:
    """Whether the run is paused."""
    return is_real(run) and run.is_paused and not run.stopping


def can_cancel(run: RunRecord) -> bool:
    """Whether there is something to stop."""
    return is_real(run) and run.live and run.stopping != "cancelled"


def can_save(run: RunRecord) -> bool:
    """Whether the run can be asked for a checkpoint now."""
    return is_real(run) and run.is_running and run.capabilities.supports_checkpoint


def can_be_joined(run: RunRecord) -> bool:
    """Whether the run has a policy, or plays one, with which a person can take turns."""
    has_one = run.newest_checkpoint("policy") is not None or can_save(run)
    return is_real(run) and (has_one or run.mode in ("policy_eval", TAKE_OVER))


def can_be_verified(run: RunRecord) -> bool:
    """Whether a piece of the run's training can be trained again and compared."""
    trained = run.mode in ("", "train", "resume_training")
    return can_delete(run) and trained and run.newest_checkpoint("full") is not None


def has_policy(run: RunRecord) -> bool:
    """Whether the run has saved a policy that can be written for other programs."""
    return is_real(run) and run.newest_checkpoint("policy") is not None


def has_recordings(run: RunRecord) -> bool:
    """Whether the run has episodes for a data set: recorded ones, or a policy that plays some."""
    recorded = run.ended and not run.capabilities.supports_checkpoint and run.mode != "verify"
    return has_policy(run) or (is_real(run) and recorded)


def can_delete(run: RunRecord) -> bool:
    """Whether the run has ended, so that it may go to the trash."""
    return is_real(run) and run.ended


def has_failed(run: RunRecord) -> bool:
    """Whether the run ended in a way that wants an explanation."""
    return run.outcome in _GONE_WRONG


def one_line(run: RunRecord) -> str:
    """The sentence beside the state: why it waits, does not move or has ended."""
    if run.wait_reason and run.live:
        return run.wait_reason
    return run.reason.splitlines()[0] if run.reason else ""


def title_of(run: RunRecord) -> str:
    """The name people see."""
    if run.run_name:
        return run.run_name
    parts = [run.algo or run.worker, run.env_id]
    return " · ".join(part for part in parts if part) or run.run_id


def title_with_seed(run: RunRecord) -> str:
    """The name people see, with its seed: runs of one experiment may differ in nothing else."""
    title, seed = title_of(run), f"seed {run.seed}"
    # Runs that were started together have the seed in their names.
    return title if run.seed is None or title.endswith(seed) else f"{title} · {seed}"
