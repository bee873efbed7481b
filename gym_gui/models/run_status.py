"""What a run's state is called, which icon and colour it has, and what may be done with it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Record = Mapping[str, Any]


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
    "INIT": Status("Queued", "clock", "muted", 3),
    "HSHK": Status("Starting", "clock", "info", 2),
    "RDY": Status("Starting", "clock", "info", 2),
    "EXEC": Status("Running", "play", "accent", 1),
    "PAUSE": Status("Paused", "pause", "warning", 4),
    "FAULT": Status("Ending", "warning", "danger", 0),
}
_ENDED = {
    "completed": Status("Completed", "check", "success", 6),
    "failed": Status("Failed", "cross", "danger", 5),
    "cancelled": Status("Cancelled", "stop", "muted", 7),
    "time_limit": Status("Time limit", "clock", "warning", 7),
    "lost": Status("Lost", "question", "danger", 5),
    "interrupted": Status("Interrupted", "stop", "warning", 7),
}
_PENDING = Status("Sending …", "clock", "muted", 0)
_STALLED = Status("Stalled", "warning", "warning", 0)


def status_of(run: Record) -> Status:
    """How to show a run's state."""
    if run.get("pending"):
        return _PENDING
    if run["state"] == "TERM":
        return _ENDED.get(run["outcome"] or "", Status("Ended", "stop", "muted", 8))
    if run.get("stopping"):
        return Status("Stopping", "stop", "warning", 0)
    if run.get("stalled"):
        return _STALLED
    return _LIVE.get(run["state"], Status(run["state"], "question", "muted", 8))


def is_live(run: Record) -> bool:
    """Whether the run has not ended."""
    return bool(run["state"] != "TERM")


def is_real(run: Record) -> bool:
    """Whether the daemon knows the run; a row just sent is not there yet."""
    return not run.get("pending")


def can_pause(run: Record) -> bool:
    """Whether pausing makes sense."""
    return is_real(run) and run["state"] == "EXEC" and not run.get("stopping")


def can_resume(run: Record) -> bool:
    """Whether the run is paused."""
    return is_real(run) and run["state"] == "PAUSE" and not run.get("stopping")


def can_cancel(run: Record) -> bool:
    """Whether there is something to stop."""
    return is_real(run) and is_live(run) and run.get("stopping") != "cancelled"


def can_delete(run: Record) -> bool:
    """Whether the run has ended, so that it may go to the trash."""
    return is_real(run) and not is_live(run)


def newest_checkpoint(run: Record, kind: str | None = None) -> Mapping[str, Any] | None:
    """The checkpoint with the highest step, of one kind or any."""
    fitting = [item for item in run["checkpoints"] if kind is None or item["kind"] == kind]
    return max(fitting, key=lambda item: item["step"], default=None)


def has_failed(run: Record) -> bool:
    """Whether the run ended in a way that wants an explanation."""
    return run["state"] == "TERM" and run["outcome"] in ("failed", "lost", "time_limit")


def one_line(run: Record) -> str:
    """The sentence beside the state: why it waits, or why it ended."""
    if run.get("wait_reason") and is_live(run):
        return str(run["wait_reason"])
    return str(run.get("reason") or "").splitlines()[0] if run.get("reason") else ""


def title_of(run: Record) -> str:
    """The name people see."""
    if run["run_name"]:
        return str(run["run_name"])
    parts = [run["algo"] or run["worker"], run["env_id"]]
    return " · ".join(part for part in parts if part) or str(run["run_id"])
