"""The life of a run as pure data: its states, and the row that its events add up to.

`mosaic.trainer.core.folding` is the only place that changes a row, and
`mosaic.trainer.core.decisions` the only one that decides which events happen.
"""

from collections.abc import Mapping
from dataclasses import asdict, field
from sys import intern
from typing import Any

from mosaic.config.json_types import JsonValue
from mosaic.records.run import Outcome
from mosaic.records.run import State as State
from mosaic.trainer.core.events import Request, RunEvent
from mosaic.trainer.core.value import value

LIVE = frozenset(State) - {State.TERM}
WITH_PROCESS = frozenset({State.HSHK, State.RDY, State.EXEC, State.PAUSE, State.FAULT})

# FAULT and TERM can be reached from every live state, because a process can die at any moment.
# Back to INIT leads only an engine that took the machine away: the same run waits to continue.
# Nothing leads out of TERM: a retry is a new run.
TRANSITIONS: frozenset[tuple[State, State]] = frozenset(
    {
        (State.INIT, State.HSHK),
        (State.HSHK, State.RDY),
        (State.RDY, State.EXEC),
        (State.EXEC, State.PAUSE),
        (State.PAUSE, State.EXEC),
    }
    | {(state, State.INIT) for state in WITH_PROCESS}
    | {(state, State.FAULT) for state in LIVE - {State.FAULT}}
    | {(state, State.TERM) for state in LIVE}
)


@value
class Event:
    """One entry of a run's log.

    Attributes:
        seq: Dense within the run, from 1.
        at: Wall clock, for display.
        mono: Monotonic clock of this boot, for durations.
        what: What happened.
    """

    seq: int
    at: float
    mono: float
    what: RunEvent


@value
class Checkpoint:
    """A saved state of the agent, as the worker announced it."""

    path: str
    step: int
    sha256: str
    kind: str
    saved_at: float


@value
class Alarm:
    """Something that went wrong in the training, as `mosaic.health` found it."""

    rule: str
    step: int
    evidence: str
    advice: str
    checkpoint: str
    checkpoint_step: int | None
    raised_at: float


@value
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
    stop_at: int | None = None
    priority: int = 0
    parent_run_id: str = ""
    parent_step: int | None = None
    idempotency_key: str = ""
    cold: bool = False
    request: Request = field(default_factory=Request)
    wallclock_s: float | None = None
    site: str = "local"
    job: str = ""
    host: str = ""
    attempt: int = 1
    tags: tuple[str, ...] = ()
    notes: str = ""
    created_at: float = 0.0
    started_at: float = 0.0
    finished_at: float = 0.0
    # Durations are measured with the monotonic clock; the wall clock may be set at any time.
    launched_mono: float = 0.0
    started_mono: float = 0.0
    paused_mono: float = 0.0
    paused_total_s: float = 0.0
    frozen_total_s: float = 0.0
    boot_id: str = ""
    epoch: int = 0
    slots: tuple[str, ...] = ()
    supervisor_pid: int = 0
    pid: int = 0
    capabilities: Mapping[str, JsonValue] = field(default_factory=dict)
    pausing: bool = False
    resuming: bool = False
    pause_by_signal: bool = False
    release_on_pause: bool = False
    checkpointing: bool = False
    stalled: bool = False
    # Implies `stalled`, and is more: a worker that hangs on a machine which answers is stalled as
    # well, and the machine's answer must not free it.
    unreachable: bool = False
    stopping: str = ""
    stop_reason: str = ""
    kill_at_mono: float = 0.0
    completion_seen: bool = False
    budget_spent: str = ""
    failure_reported: str = ""
    exit_code: int | None = None
    exit_signal: int | None = None
    outcome: str = ""
    reason: str = ""
    checkpoints: tuple[Checkpoint, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    deleted: bool = False

    @property
    def live(self) -> bool:
        return self.state is not State.TERM

    @property
    def damaged(self) -> bool:
        """What it left makes no sense: a row made from what could be read, not from events."""
        return self.outcome == Outcome.DAMAGED

    @property
    def launching(self) -> bool:
        """Slots are reserved and a supervisor is being started."""
        return self.state is State.INIT and bool(self.slots)

    @property
    def overdue(self) -> bool:
        """Its worker has said how it ended; all that is missing is that its process exits."""
        return (self.completion_seen or bool(self.failure_reported)) and not self.stopping

    @property
    def placed(self) -> bool:
        """The engine of its site has it, and has not begun it yet."""
        return self.launching and bool(self.job)

    @property
    def queued(self) -> bool:
        """Waits for slots: new, or paused with its slots released and asked to continue."""
        waits = self.state is State.INIT or (self.state is State.PAUSE and self.resuming)
        return waits and not self.slots and not self.stopping


def run_to_dict(run: Run) -> dict[str, object]:
    """The row as plain data."""
    return asdict(run)


def run_from_dict(data: Mapping[str, Any]) -> Run:
    """The row from plain data."""
    # Interned: a call finds a keyword by identity, and compares the text with every parameter's
    # only if that fails. With sixty of them that was most of the time a page of runs took.
    known = {intern(name): said for name, said in data.items()}
    # JSON has neither enums nor tuples.
    known["state"] = State(known["state"])
    known["request"] = Request(**known["request"])
    known["checkpoints"] = tuple(Checkpoint(**item) for item in known["checkpoints"])
    known["alarms"] = tuple(Alarm(**item) for item in known.get("alarms", ()))
    known["slots"] = tuple(known["slots"])
    known["tags"] = tuple(known["tags"])
    return Run(**known)
