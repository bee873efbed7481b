"""What can happen to a run: calls, the worker's lines, deadlines, ended processes. Plain data."""

from collections.abc import Mapping
from dataclasses import field

from mosaic.config.json_types import JsonValue
from mosaic.records.run import Outcome
from mosaic.trainer.core.value import value


@value
class SlotsGranted:
    """The scheduler found room."""

    slots: tuple[str, ...]
    epoch: int
    boot_id: str


@value
class JobPlaced:
    """The engine of the run's site has accepted it as a job."""

    job: str


@value
class MachineTaken:
    """The engine ended this attempt, to give its machine to others or because it broke."""

    reason: str


@value
class SilenceFound:
    """The run's machine has not been heard for a while; nothing says that the run has ended."""

    detail: str


@value
class HeardAgain:
    """The run's machine is heard again."""


@value
class LaunchUndone:
    """No supervisor was started: the daemon died before that, or the machine was short of room."""

    reason: str = ""


@value
class LaunchFailed:
    """The supervisor could not start the worker."""

    reason: str


@value
class Spawned:
    """The supervisor wrote down the worker's process: the first one, or another after a kill."""

    supervisor_pid: int
    pid: int
    host: str = ""


@value
class WorkerRegistered:
    """The handshake succeeded."""

    capabilities: Mapping[str, JsonValue]


@value
class HandshakeRefused:
    """The worker speaks another protocol."""

    reason: str


@value
class WorkerSaid:
    """A lifecycle line other than a vital sign."""

    event: str
    data: Mapping[str, JsonValue] = field(default_factory=dict)


@value
class CancelRequested:
    """A user, or a limit, wants it to end."""

    grace_s: float
    outcome: Outcome = Outcome.CANCELLED
    reason: str = "cancelled by the user"


@value
class PauseRequested:
    """A user asked for a pause."""

    release: bool = False


@value
class ResumeRequested:
    """A user asked to continue it."""


@value
class WorkerPaused:
    """The worker reached a safe point, or the group was stopped."""


@value
class WorkerResumed:
    """The worker continues."""


@value
class CheckpointRequested:
    """A user asked for a checkpoint now."""


@value
class WorkerCheckpointed:
    """The worker answered that its newest checkpoint is of this moment."""


@value
class WorkerRefused:
    """The worker answered that it cannot do what it was asked."""

    reason: str


@value
class DeadlinePassed:
    """A clock ran out: `launch`, `handshake`, `wallclock`, `grace`, `heartbeat` or `exit`."""

    kind: str
    detail: str = ""
    grace_s: float = 0.0


@value
class SignOfLife:
    """A heartbeat or metrics line of a stalled run."""


@value
class FreezeEnded:
    """The daemon, and so most likely the worker beside it, stood still for a while."""

    seconds: float


@value
class AlarmRaised:
    """A health rule, or the worker itself, found something wrong.

    Attributes:
        kept: The files in the run's checkpoint folders at this moment.
    """

    rule: str
    step: int
    evidence: str
    advice: str = ""
    kept: tuple[str, ...] = ()


@value
class Adopted:
    """A new daemon found the run's processes alive."""

    epoch: int


@value
class StragglersFound:
    """The worker ended but left processes behind."""

    count: int


@value
class ProcessEnded:
    """Every process of the run is proven dead. Without a code it is not known how it ended."""

    code: int | None
    signal: int | None
    finished_at: float
    detail: str = ""
    memory: bool = False


@value
class AnnotateRequested:
    """A user changes what they say about the run; None leaves a field as it is."""

    run_name: str | None = None
    notes: str | None = None
    tags: tuple[str, ...] | None = None
    priority: int | None = None


@value
class DeleteRequested:
    """A user wants the run in the trash, or with `purge` gone for good."""

    purge: bool = False


@value
class RestoreRequested:
    """A user wants the run back from the trash."""


@value
class ImportedAsCopy:
    """The run came from another home, where it is called `original`."""

    original: str


Stimulus = (
    SlotsGranted
    | JobPlaced
    | MachineTaken
    | SilenceFound
    | HeardAgain
    | LaunchUndone
    | LaunchFailed
    | Spawned
    | WorkerRegistered
    | HandshakeRefused
    | WorkerSaid
    | CancelRequested
    | PauseRequested
    | ResumeRequested
    | WorkerPaused
    | WorkerResumed
    | CheckpointRequested
    | WorkerCheckpointed
    | WorkerRefused
    | DeadlinePassed
    | SignOfLife
    | FreezeEnded
    | AlarmRaised
    | Adopted
    | StragglersFound
    | ProcessEnded
    | AnnotateRequested
    | DeleteRequested
    | RestoreRequested
    | ImportedAsCopy
)
