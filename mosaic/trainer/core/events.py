"""What can have happened to a run: one frozen class for each kind of event in its log.

`mosaic.trainer.core.decisions` makes them, `mosaic.trainer.core.states` folds them into the row,
`mosaic.trainer.core.eventcodec` turns them into log lines and back. The names of kinds and fields
are the format on disk: they may be added to, never renamed.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar

from mosaic.config.json_types import JsonValue
from mosaic.records.run import Outcome
from mosaic.trainer.core.value import value


@value
class Request:
    """What a run asks of the machine."""

    cpus: int = 1
    gpus: int = 0
    gpus_mandatory: int = 0
    memory_mb: int = 0


@value
class Submitted:
    """The run was created.

    Attributes:
        stop_at: The step at which it ends, where that is before its last.
    """

    kind: ClassVar = "submitted"
    run_name: str = ""
    worker: str = ""
    module: str = ""
    algo: str = ""
    env_id: str = ""
    seed: int | None = None
    mode: str = "train"
    total_timesteps: int = 0
    stop_at: int | None = None
    priority: int = 0
    parent_run_id: str = ""
    parent_step: int | None = None
    idempotency_key: str = ""
    cold: bool = False
    request: Request = Request()
    wallclock_s: float | None = None
    site: str = "local"
    tags: tuple[str, ...] = ()
    notes: str = ""


@value
class SlotsReserved:
    """The scheduler gave it slots; a supervisor is about to be started."""

    kind: ClassVar = "slots_reserved"
    slots: tuple[str, ...]
    epoch: int
    boot_id: str


@value
class Placed:
    """The engine of the run's site took it as a job; the engine decides when it begins."""

    kind: ClassVar = "placed"
    job: str


@value
class Requeued:
    """The engine took the machine away; the run waits to continue, as another attempt."""

    kind: ClassVar = "requeued"
    reason: str


@value
class LaunchTakenBack:
    """No supervisor was started; the slots are free again."""

    kind: ClassVar = "launch_undone"
    reason: str = ""


@value
class WorkerSpawned:
    """The supervisor started the worker."""

    kind: ClassVar = "spawned"
    supervisor_pid: int
    pid: int
    host: str = ""


@value
class WorkerRestarted:
    """The worker was killed, and its supervisor has started it again."""

    kind: ClassVar = "worker_restarted"
    pid: int


@value
class Registered:
    """The handshake succeeded."""

    kind: ClassVar = "worker_registered"
    capabilities: Mapping[str, JsonValue]


@value
class Started:
    """The worker began its work.

    Attributes:
        algo: Its algorithm, where the configuration left that to the worker.
        env_id: Its environment, likewise.
    """

    kind: ClassVar = "run_started"
    algo: str | None = None
    env_id: str | None = None


@value
class PauseAsked:
    """A user asked for a pause."""

    kind: ClassVar = "pause_requested"
    by_signal: bool
    release: bool


@value
class Paused:
    """The worker has paused."""

    kind: ClassVar = "paused"


@value
class ResumeAsked:
    """A user asked to continue a paused run."""

    kind: ClassVar = "resume_requested"


@value
class SlotsRegained:
    """A paused run that had released its slots has slots again."""

    kind: ClassVar = "slots_regained"
    slots: tuple[str, ...]


@value
class Resumed:
    """The worker continues."""

    kind: ClassVar = "resumed"


@value
class CheckpointAsked:
    """A user asked for a checkpoint."""

    kind: ClassVar = "checkpoint_requested"


@value
class CheckpointConfirmed:
    """The worker answered: its newest checkpoint is of this moment."""

    kind: ClassVar = "checkpoint_confirmed"


@value
class CheckpointRefused:
    """The worker answered: it could not save."""

    kind: ClassVar = "checkpoint_refused"
    reason: str


@value
class CheckpointSaved:
    """A checkpoint is in the run directory under `path`."""

    kind: ClassVar = "checkpoint_saved"
    path: str
    step: int
    sha256: str
    # The file's own kind; the log calls it `kind`, which here names the event.
    content: str = field(metadata={"name": "kind"})


@value
class Stalled:
    """No sign of life for a while."""

    kind: ClassVar = "stalled"
    detail: str = ""


@value
class Recovered:
    """A stalled run showed a sign of life."""

    kind: ClassVar = "recovered"


@value
class StoodStill:
    """Nothing ran for a while, as on a paused container; no limit of the run counts it."""

    kind: ClassVar = "stood_still"
    seconds: float


@value
class ContactLost:
    """Its machine is silent, and whether the run lives is not known."""

    kind: ClassVar = "contact_lost"
    detail: str


@value
class ContactRegained:
    """Its machine is heard again."""

    kind: ClassVar = "contact_regained"


@value
class Alarmed:
    """Something is wrong with the training, which continues.

    Attributes:
        rule: What, by name.
        step: Where it began.
        evidence: The numbers.
        advice: What to try.
        checkpoint: The last one from before it began; empty if none is kept.
        checkpoint_step: The step of that one.
    """

    kind: ClassVar = "alarm"
    rule: str
    step: int
    evidence: str
    advice: str = ""
    checkpoint: str = ""
    checkpoint_step: int | None = None


@value
class AdoptedByDaemon:
    """A new daemon took the run over."""

    kind: ClassVar = "adopted"
    epoch: int


@value
class StopAsked:
    """The run is to end; `kill_at_mono` is when patience ends."""

    kind: ClassVar = "stop_requested"
    outcome: Outcome
    reason: str
    kill_at_mono: float


@value
class CompletionReported:
    """The worker said that it has done what it was asked."""

    kind: ClassVar = "completion_reported"
    said: Mapping[str, JsonValue] = field(default_factory=dict, metadata={"rest": True})


@value
class FailureReported:
    """The worker said why it failed."""

    kind: ClassVar = "failure_reported"
    reason: str
    said: Mapping[str, JsonValue] = field(default_factory=dict, metadata={"rest": True})


@value
class WorkerNoted:
    """Anything else the worker wants remembered."""

    kind: ClassVar = "worker_note"
    event: str
    said: Mapping[str, JsonValue] = field(default_factory=dict, metadata={"rest": True})


@value
class Faulted:
    """Something is wrong beyond repair; its processes are being killed."""

    kind: ClassVar = "faulted"
    reason: str


@value
class ProcessesEnded:
    """Every process of the run is dead."""

    kind: ClassVar = "process_ended"
    code: int | None = None
    signal: int | None = None
    detail: str = ""


@value
class Settled:
    """The run is over."""

    kind: ClassVar = "settled"
    outcome: Outcome
    reason: str
    finished_at: float


@value
class Annotated:
    """A user changed what they say about the run; None leaves a field as it is."""

    kind: ClassVar = "annotated"
    run_name: str | None = None
    notes: str | None = None
    tags: tuple[str, ...] | None = None
    priority: int | None = None


@value
class Copied:
    """The run was imported as a copy of another home's run."""

    kind: ClassVar = "copied"
    parent_run_id: str


@value
class Deleted:
    """The run was moved to the trash."""

    kind: ClassVar = "deleted"


@value
class Restored:
    """The run was taken out of the trash."""

    kind: ClassVar = "restored"


RunEvent = (
    Submitted
    | SlotsReserved
    | Placed
    | Requeued
    | LaunchTakenBack
    | WorkerSpawned
    | WorkerRestarted
    | Registered
    | Started
    | PauseAsked
    | Paused
    | ResumeAsked
    | SlotsRegained
    | Resumed
    | CheckpointAsked
    | CheckpointConfirmed
    | CheckpointRefused
    | CheckpointSaved
    | Stalled
    | Recovered
    | StoodStill
    | ContactLost
    | ContactRegained
    | Alarmed
    | AdoptedByDaemon
    | StopAsked
    | CompletionReported
    | FailureReported
    | WorkerNoted
    | Faulted
    | ProcessesEnded
    | Settled
    | Annotated
    | Copied
    | Deleted
    | Restored
)
