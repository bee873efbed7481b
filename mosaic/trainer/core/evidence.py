"""What the evidence about a run on another machine adds up to. Pure.

No engine's word proves a death: SLURM has forgotten jobs that still ran, and others say that a node
lives after it has died. So three things are weighed. An exit record of the run's own supervisor
settles how its worker ended. A lease that changes says that the supervisor lives. A run is given up
only when its lease has stood still *and* the engine has said that the job is over, both for long.
"""

from collections.abc import Mapping

from mosaic.config.json_types import JsonValue
from mosaic.records.run import Outcome
from mosaic.trainer.core.value import value

# Six beats of a supervisor. A shared folder may show a change half a minute late.
LEASE_STALE_S = 30.0
QUEUED, RUNNING, ENDED, UNKNOWN, SILENT = "queued", "running", "ended", "unknown", "silent"
_OVER = (ENDED, UNKNOWN)


@value
class Seen:
    """Everything that is known about an attempt of a run.

    Attributes:
        exit: The exit record of its supervisor; None if there is none.
        began: Its supervisor has written down a worker.
        quiet_s: How long its lease has not changed, by our own clock.
        word: What the engine says of its job, or that it does not answer.
        word_s: For how long it has said so.
        detail: The same as a sentence.
        taken: The engine took the machine away and may begin the job again.
        stopped: The engine ended the job for good, by its time limit or by a person's hand.
        asked: We asked the run to stop ourselves.
    """

    exit: Mapping[str, JsonValue] | None
    began: bool
    quiet_s: float
    word: str
    word_s: float
    detail: str
    taken: bool = False
    stopped: Outcome | None = None
    asked: bool = False


@value
class Alive:
    """Nothing says otherwise."""


@value
class Waiting:
    """It has not begun yet."""

    reason: str


@value
class Silent:
    """It cannot be reached, and is not known to be dead."""

    detail: str


@value
class Taken:
    """This attempt is over, the run is not."""

    reason: str


@value
class NeverBegan:
    """Its job ended, or was forgotten, before any worker was started.

    Attributes:
        again: It was no one's decision, so that it can be placed again.
    """

    reason: str
    again: bool
    stopped: Outcome | None = None


@value
class Over:
    """It has ended.

    Attributes:
        record: The exit record; empty if there is none.
        detail: What the engine says about it.
        stopped: Who else ended it.
    """

    record: Mapping[str, JsonValue]
    detail: str = ""
    stopped: Outcome | None = None


News = Alive | Waiting | Silent | Taken | NeverBegan | Over


def weigh(seen: Seen, lost_after_s: float) -> News:
    """What to believe of a run that an engine has placed."""
    if seen.exit is not None and (seen.asked or not _killed(seen.exit)):
        return Over(seen.exit)
    if seen.exit is None and not seen.began:
        return _before_the_start(seen, lost_after_s)
    if seen.exit is None and seen.quiet_s <= LEASE_STALE_S:
        return Alive()
    if seen.taken:
        return Taken(seen.detail)
    if seen.exit is not None:
        # A signal ended the worker. Whose it was only the engine knows, so it is waited for.
        known = seen.word in _OVER or seen.word_s >= lost_after_s
        return Over(seen.exit, seen.detail, seen.stopped) if known else Alive()
    if seen.word in _OVER and min(seen.quiet_s, seen.word_s) >= lost_after_s:
        return Over({}, f"lost: {seen.detail}, and its supervisor is silent", seen.stopped)
    return Silent(seen.detail)


def _before_the_start(seen: Seen, lost_after_s: float) -> News:
    if seen.word == ENDED and seen.word_s >= LEASE_STALE_S:
        return NeverBegan(seen.detail, again=seen.taken, stopped=seen.stopped)
    if seen.word == UNKNOWN and seen.word_s >= lost_after_s:
        return NeverBegan(seen.detail, again=True)
    return Waiting(seen.detail)


def _killed(record: Mapping[str, JsonValue]) -> bool:
    """Whether a worker died of a signal, or says that it ended because of one."""
    code = record.get("code")
    return record.get("signal") is not None or (isinstance(code, int) and code > 128)
