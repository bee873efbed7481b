"""The life of a run as pure data: states, events, and the fold from events to the row.

Nothing here does I/O. `evolve` is the only way a row changes; `mosaic.trainer.core.decisions`
is the only place that decides which events happen.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from mosaic.errors import InvalidTransitionError
from mosaic.records.run import Outcome as Outcome
from mosaic.records.run import State as State

LIVE = frozenset(State) - {State.TERM}
WITH_PROCESS = frozenset({State.HSHK, State.RDY, State.EXEC, State.PAUSE, State.FAULT})

TRANSITIONS: frozenset[tuple[State, State]] = frozenset(
    {
        (State.INIT, State.HSHK),
        (State.HSHK, State.RDY),
        (State.RDY, State.EXEC),
        (State.EXEC, State.PAUSE),
        (State.PAUSE, State.EXEC),
    }
    | {(state, State.FAULT) for state in LIVE - {State.FAULT}}
    | {(state, State.TERM) for state in LIVE}
)


@dataclass(frozen=True)
class Event:
    """One line of a run's log.

    Attributes:
        seq: Dense within the run, from 1.
        kind: One of the names handled by `evolve`.
        at: Wall clock, for display.
        mono: Monotonic clock of this boot, for durations.
        data: What the kind needs.
    """

    seq: int
    kind: str
    at: float
    mono: float
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """What a run asks of the machine."""

    cpus: int = 1
    gpus: int = 0
    gpus_mandatory: int = 0
    memory_mb: int = 0


@dataclass(frozen=True)
class Checkpoint:
    """A saved state of the agent, as the worker announced it."""

    path: str
    step: int
    sha256: str
    kind: str
    saved_at: float


@dataclass(frozen=True)
class Run:
    """The row: the fold of a run's events."""

    run_id: str
    state: State = State.INIT
    version: int = 0
    run_name: str = ""
    worker: str = ""
    module: str = ""
    algo: str = ""
    env_id: str = ""
    seed: int | None = None
    mode: str = "train"
    total_timesteps: int = 0
    priority: int = 0
    parent_run_id: str = ""
    idempotency_key: str = ""
    cold: bool = False
    request: Request = Request()
    wallclock_s: float | None = None
    tags: tuple[str, ...] = ()
    notes: str = ""
    created_at: float = 0.0
    started_at: float = 0.0
    finished_at: float = 0.0
    launched_mono: float = 0.0
    started_mono: float = 0.0
    paused_mono: float = 0.0
    paused_total_s: float = 0.0
    boot_id: str = ""
    epoch: int = 0
    slots: tuple[str, ...] = ()
    supervisor_pid: int = 0
    pid: int = 0
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    pausing: bool = False
    resuming: bool = False
    pause_by_signal: bool = False
    release_on_pause: bool = False
    checkpointing: bool = False
    stalled: bool = False
    stopping: str = ""
    stop_reason: str = ""
    kill_at_mono: float = 0.0
    completion_seen: bool = False
    failure_reported: str = ""
    exit_code: int | None = None
    exit_signal: int | None = None
    outcome: str = ""
    reason: str = ""
    checkpoints: tuple[Checkpoint, ...] = ()
    deleted: bool = False

    @property
    def live(self) -> bool:
        return self.state is not State.TERM

    @property
    def launching(self) -> bool:
        """Slots are reserved and a supervisor is being started."""
        return self.state is State.INIT and bool(self.slots)

    @property
    def queued(self) -> bool:
        """Waits for slots: new, or paused with its slots given back and asked to go on."""
        waits = self.state is State.INIT or (self.state is State.PAUSE and self.resuming)
        return waits and not self.slots and not self.stopping


def evolve(run: Run, event: Event) -> Run:
    """The row after one more event.

    Raises:
        InvalidTransitionError: The event is out of order or the state machine forbids it.
    """
    if event.seq != run.version + 1:
        raise InvalidTransitionError(
            f"run {run.run_id}: event {event.seq} ({event.kind}) after event {run.version}"
        )
    handler = _HANDLERS.get(event.kind)
    changed = handler(run, event) if handler else run
    if changed.state is not run.state and (run.state, changed.state) not in TRANSITIONS:
        raise InvalidTransitionError(
            f"run {run.run_id} is {run.state} and cannot become {changed.state} by {event.kind!r}"
        )
    return replace(changed, version=event.seq)


def replay(run_id: str, events: Iterable[Event]) -> Run:
    """The row a whole log gives.

    Raises:
        InvalidTransitionError: With the history up to the event that does not fit.
    """
    run, story = Run(run_id), []
    for event in events:
        story.append(f"{event.seq} {event.kind}")
        try:
            run = evolve(run, event)
        except InvalidTransitionError as error:
            raise InvalidTransitionError(f"{error}; history: {', '.join(story)}") from None
    return run


def _submitted(run: Run, event: Event) -> Run:
    data = dict(event.data)
    data["request"] = Request(**data.get("request", {}))
    data["tags"] = tuple(data.get("tags", ()))
    return replace(run, created_at=event.at, **data)


def _slots_reserved(run: Run, event: Event) -> Run:
    return replace(
        run,
        slots=tuple(event.data["slots"]),
        epoch=event.data["epoch"],
        launched_mono=event.mono,
        boot_id=event.data["boot_id"],
    )


def _spawned(run: Run, event: Event) -> Run:
    return replace(
        run,
        state=State.HSHK,
        supervisor_pid=event.data["supervisor_pid"],
        pid=event.data["pid"],
        launched_mono=event.mono,
    )


def _worker_registered(run: Run, event: Event) -> Run:
    state = State.RDY if run.state is State.HSHK else run.state
    return replace(run, state=state, capabilities=dict(event.data["capabilities"]))


def _run_started(run: Run, event: Event) -> Run:
    return replace(run, state=State.EXEC, started_at=event.at, started_mono=event.mono)


def _pause_requested(run: Run, event: Event) -> Run:
    return replace(
        run,
        pausing=True,
        resuming=False,
        pause_by_signal=event.data["by_signal"],
        release_on_pause=event.data["release"],
    )


def _paused(run: Run, event: Event) -> Run:
    slots = () if run.release_on_pause else run.slots
    return replace(
        run, state=State.PAUSE, pausing=False, paused_mono=event.mono, slots=slots, stalled=False
    )


def _resume_requested(run: Run, event: Event) -> Run:
    # A worker that is still on its way to a pause keeps its slots: it will go on at once.
    return replace(run, resuming=True, release_on_pause=False)


def _resumed(run: Run, event: Event) -> Run:
    idle = event.mono - run.paused_mono if run.state is State.PAUSE else 0.0
    return replace(
        run,
        state=State.EXEC,
        pausing=False,
        resuming=False,
        release_on_pause=False,
        paused_total_s=run.paused_total_s + idle,
    )


def _checkpoint_saved(run: Run, event: Event) -> Run:
    saved = Checkpoint(saved_at=event.at, **event.data)
    others = tuple(kept for kept in run.checkpoints if kept.path != saved.path)
    return replace(run, checkpoints=(*others, saved)[-50:])


def _stop_requested(run: Run, event: Event) -> Run:
    return replace(
        run,
        stopping=event.data["outcome"],
        stop_reason=event.data["reason"],
        kill_at_mono=event.data["kill_at_mono"],
    )


def _faulted(run: Run, event: Event) -> Run:
    return replace(run, state=State.FAULT, reason=event.data["reason"])


def _process_ended(run: Run, event: Event) -> Run:
    return replace(run, exit_code=event.data["code"], exit_signal=event.data["signal"])


def _settled(run: Run, event: Event) -> Run:
    return replace(
        run,
        state=State.TERM,
        outcome=event.data["outcome"],
        reason=event.data["reason"],
        finished_at=event.data["finished_at"],
        slots=(),
        stalled=False,
        pausing=False,
        resuming=False,
        checkpointing=False,
    )


def _annotated(run: Run, event: Event) -> Run:
    data = dict(event.data)
    if "tags" in data:
        data["tags"] = tuple(data["tags"])
    return replace(run, **data)


_HANDLERS: dict[str, Callable[[Run, Event], Run]] = {
    "submitted": _submitted,
    "slots_reserved": _slots_reserved,
    "launch_undone": lambda run, _: replace(run, slots=()),
    "spawned": _spawned,
    "worker_registered": _worker_registered,
    "run_started": _run_started,
    "pause_requested": _pause_requested,
    "paused": _paused,
    "resume_requested": _resume_requested,
    "slots_regained": lambda run, event: replace(run, slots=tuple(event.data["slots"])),
    "resumed": _resumed,
    "checkpoint_requested": lambda run, _: replace(run, checkpointing=True),
    "checkpoint_confirmed": lambda run, _: replace(run, checkpointing=False),
    "checkpoint_refused": lambda run, _: replace(run, checkpointing=False),
    "checkpoint_saved": _checkpoint_saved,
    "stalled": lambda run, _: replace(run, stalled=True),
    "recovered": lambda run, _: replace(run, stalled=False),
    "adopted": lambda run, event: replace(run, epoch=event.data["epoch"]),
    "stop_requested": _stop_requested,
    "completion_reported": lambda run, _: replace(run, completion_seen=True),
    "failure_reported": lambda run, event: replace(run, failure_reported=event.data["reason"]),
    "faulted": _faulted,
    "process_ended": _process_ended,
    "settled": _settled,
    "annotated": _annotated,
    "deleted": lambda run, _: replace(run, deleted=True),
    "restored": lambda run, _: replace(run, deleted=False),
}


def run_to_dict(run: Run) -> dict[str, Any]:
    """The row as plain data."""
    return asdict(run)


def run_from_dict(data: Mapping[str, Any]) -> Run:
    """The row from plain data."""
    known = dict(data)
    known["state"] = State(known["state"])
    known["request"] = Request(**known["request"])
    known["checkpoints"] = tuple(Checkpoint(**item) for item in known["checkpoints"])
    known["slots"] = tuple(known["slots"])
    known["tags"] = tuple(known["tags"])
    return Run(**known)
