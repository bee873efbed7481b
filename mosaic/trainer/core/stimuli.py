"""What can happen to a run: calls, the worker's lines, deadlines, ended processes. Plain data."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mosaic.records.run import Outcome
from mosaic.trainer.core.events import Json


@dataclass(frozen=True)
class SlotsGranted:
    """The scheduler found room."""

    slots: tuple[str, ...]
    epoch: int
    boot_id: str


@dataclass(frozen=True)
class LaunchUndone:
    """No supervisor was started: the daemon died before that, or the machine was short of room."""

    reason: str = ""


@dataclass(frozen=True)
class LaunchFailed:
    """The supervisor could not start the worker."""

    reason: str


@dataclass(frozen=True)
class Spawned:
    """The supervisor wrote down the worker's process."""

    supervisor_pid: int
    pid: int


@dataclass(frozen=True)
class WorkerRegistered:
    """The handshake succeeded."""

    capabilities: Mapping[str, Json]


@dataclass(frozen=True)
class HandshakeRefused:
    """The worker speaks another protocol."""

    reason: str


@dataclass(frozen=True)
class WorkerSaid:
    """A lifecycle line other than a vital sign."""

    event: str
    data: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class CancelRequested:
    """A user, or a limit, wants it to end."""

    grace_s: float
    outcome: Outcome = Outcome.CANCELLED
    reason: str = "cancelled by the user"


@dataclass(frozen=True)
class PauseRequested:
    """A user asked for a pause."""

    release: bool = False


@dataclass(frozen=True)
class ResumeRequested:
    """A user asked to continue it."""


@dataclass(frozen=True)
class WorkerPaused:
    """The worker reached a safe point, or the group was stopped."""


@dataclass(frozen=True)
class WorkerResumed:
    """The worker continues."""


@dataclass(frozen=True)
class CheckpointRequested:
    """A user asked for a checkpoint now."""


@dataclass(frozen=True)
class WorkerCheckpointed:
    """The worker answered that its newest checkpoint is of this moment."""


@dataclass(frozen=True)
class WorkerRefused:
    """The worker answered that it cannot do what it was asked."""

    reason: str


@dataclass(frozen=True)
class DeadlinePassed:
    """A clock ran out: `launch`, `handshake`, `wallclock`, `grace` or `heartbeat`."""

    kind: str
    detail: str = ""
    grace_s: float = 0.0


@dataclass(frozen=True)
class SignOfLife:
    """A heartbeat or metrics line of a stalled run."""


@dataclass(frozen=True)
class Adopted:
    """A new daemon found the run's processes alive."""

    epoch: int


@dataclass(frozen=True)
class StragglersFound:
    """The worker ended but left processes behind."""

    count: int


@dataclass(frozen=True)
class ProcessEnded:
    """Every process of the run is proven dead. Without a code it is not known how it ended."""

    code: int | None
    signal: int | None
    finished_at: float
    detail: str = ""
    memory: bool = False


@dataclass(frozen=True)
class AnnotateRequested:
    """A user wrote something about the run; None leaves a field as it is."""

    run_name: str | None = None
    notes: str | None = None
    tags: tuple[str, ...] | None = None


@dataclass(frozen=True)
class DeleteRequested:
    """A user wants the run in the trash, or with `purge` gone for good."""

    purge: bool = False


@dataclass(frozen=True)
class RestoreRequested:
    """A user wants the run back from the trash."""


@dataclass(frozen=True)
class ImportedAsCopy:
    """The run came from another home, where it is called `original`."""

    original: str


Stimulus = (
    SlotsGranted
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
    | Adopted
    | StragglersFound
    | ProcessEnded
    | AnnotateRequested
    | DeleteRequested
    | RestoreRequested
    | ImportedAsCopy
)
