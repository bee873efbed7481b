"""The pure heart: what a stimulus means, for every state that matters, without any I/O."""

import signal
from dataclasses import replace

import pytest

from mosaic.errors import InvalidTransitionError
from mosaic.records.wire import read_run
from mosaic.trainer.api.messages import run_message
from mosaic.trainer.core.decisions import Decision, Now, decide
from mosaic.trainer.core.events import Started, Submitted, WorkerSpawned
from mosaic.trainer.core.folding import evolve, replay
from mosaic.trainer.core.instructions import (
    Archive,
    KillEverything,
    Launch,
    SendControl,
    SignalGroup,
)
from mosaic.trainer.core.states import Event, Run, State, run_from_dict, run_to_dict
from mosaic.trainer.core.stimuli import (
    CancelRequested,
    DeadlinePassed,
    HandshakeRefused,
    LaunchFailed,
    PauseRequested,
    ProcessEnded,
    ResumeRequested,
    SlotsGranted,
    Spawned,
    StragglersFound,
    WorkerPaused,
    WorkerRegistered,
    WorkerResumed,
    WorkerSaid,
)
from mosaic.trainer.storage.registry import StoredRun, Vitals

RUN_ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
NOW = Now(wall=1000.0, mono=50.0)


def take(run: Run, decision: Decision) -> Run:
    """The row after a decision."""
    for what in decision.events:
        run = evolve(run, Event(run.version + 1, NOW.wall, NOW.mono, what))
    return run


def make(state: State, **fields: object) -> Run:
    """A run in a state, with what such a run has."""
    slots = () if state is State.INIT else ("cpu:0",)
    return replace(Run(RUN_ID, state=state, slots=slots, pid=7), **fields)  # type: ignore[arg-type]


def test_the_whole_way_of_a_run() -> None:
    """A run that goes well passes every state in order and ends completed."""
    run = Run(RUN_ID)
    for stimulus, state in (
        (SlotsGranted(("cpu:0",), 1, "boot"), State.INIT),
        (Spawned(6, 7), State.HSHK),
        (WorkerRegistered({"supports_pause": True}), State.RDY),
        (WorkerSaid("run_started"), State.EXEC),
        (WorkerSaid("run_completed"), State.EXEC),
        (ProcessEnded(0, None, 1000.0), State.TERM),
    ):
        run = take(run, decide(run, stimulus, NOW))
        assert run.state is state
    assert (run.outcome, run.exit_code, run.slots) == ("completed", 0, ())


@pytest.mark.parametrize("state", [State.HSHK, State.RDY, State.EXEC, State.PAUSE])
def test_cancel_asks_first_and_keeps_the_slots(state: State) -> None:
    """Cancelling sends SIGTERM and sets the moment of the kill; the slots stay taken."""
    run = make(state)
    decision = decide(run, CancelRequested(grace_s=5.0), NOW)
    assert decision.instructions == (SignalGroup(signal.SIGTERM),)
    after = take(run, decision)
    assert (after.stopping, after.kill_at_mono, after.slots) == ("cancelled", 55.0, ("cpu:0",))
    assert decide(after, CancelRequested(grace_s=9.0), NOW) == Decision()
    sooner = take(after, decide(after, CancelRequested(grace_s=1.0), NOW))
    assert sooner.kill_at_mono == 51.0


def test_cancel_of_a_waiting_run_is_immediate() -> None:
    """A run without slots has nothing to wait for."""
    decision = decide(Run(RUN_ID), CancelRequested(5.0), NOW)
    assert take(Run(RUN_ID), decision).outcome == "cancelled"
    assert decision.instructions == (Archive(),)


def test_cancel_while_it_is_being_launched() -> None:
    """A run cancelled between slots and spawn is stopped as soon as it exists, or never starts."""
    run = make(State.INIT, slots=("cpu:0",))
    run = take(run, decide(run, CancelRequested(5.0), NOW))
    assert run.live
    spawned = decide(run, Spawned(6, 7), NOW)
    assert spawned.instructions == (SignalGroup(signal.SIGTERM),)
    never = take(run, decide(run, LaunchFailed("no such file"), NOW))
    assert never.outcome == "cancelled"


def test_a_late_launch_failure_settles_nothing() -> None:
    """Once a worker exists, a failure report of its launch frees no slot."""
    assert decide(make(State.HSHK), LaunchFailed("late"), NOW) == Decision()


def test_cancel_of_a_stopped_group_wakes_it() -> None:
    """A group stopped by SIGSTOP gets SIGCONT, so that it can obey SIGTERM."""
    decision = decide(make(State.PAUSE, pause_by_signal=True), CancelRequested(5.0), NOW)
    assert decision.instructions == (SignalGroup(signal.SIGTERM), SignalGroup(signal.SIGCONT))


def test_fault_keeps_the_slots_until_death() -> None:
    """A faulted run is killed and holds its slots until its processes are proven dead."""
    run = make(State.HSHK)
    decision = decide(run, HandshakeRefused("protocol 9"), NOW)
    assert decision.instructions == (KillEverything(),)
    faulted = take(run, decision)
    assert (faulted.state, faulted.slots) == (State.FAULT, ("cpu:0",))
    ended = take(faulted, decide(faulted, ProcessEnded(None, 9, 1000.0), NOW))
    assert (ended.outcome, ended.reason, ended.slots) == ("failed", "protocol 9", ())


def test_registration_in_the_wrong_moment_changes_nothing() -> None:
    """A worker may repeat its handshake; one of a faulted run is not heard."""
    known = make(State.EXEC, capabilities={"a": 1})
    assert decide(known, WorkerRegistered({"a": 1}), NOW) == Decision()
    assert decide(make(State.FAULT), WorkerRegistered({}), NOW) == Decision()


def test_pause_by_control_and_by_signal() -> None:
    """A worker that can pause is asked; any other group is stopped."""
    able = make(State.EXEC, capabilities={"supports_pause": True})
    asked = decide(able, PauseRequested(), NOW)
    assert asked.instructions == (SendControl("pause"),)
    waiting = take(able, asked)
    assert waiting.state is State.EXEC
    assert take(waiting, decide(waiting, WorkerPaused(), NOW)).state is State.PAUSE
    stopped = decide(make(State.EXEC), PauseRequested(), NOW)
    assert stopped.instructions == (SignalGroup(signal.SIGSTOP),)


def test_a_worker_cannot_pause_unasked() -> None:
    """`paused` and `resumed` out of the blue change nothing."""
    assert decide(make(State.EXEC), WorkerPaused(), NOW) == Decision()
    assert decide(make(State.PAUSE, slots=()), WorkerResumed(), NOW) == Decision()


def test_resume_overtakes_a_released_pause() -> None:
    """A run told to go on before it has paused keeps its slots all the way."""
    run = make(State.EXEC, capabilities={"supports_pause": True})
    for stimulus in (PauseRequested(release=True), ResumeRequested(), WorkerPaused()):
        run = take(run, decide(run, stimulus, NOW))
        assert run.slots == ("cpu:0",)
    run = take(run, decide(run, WorkerResumed(), NOW))
    assert (run.state, run.slots, run.resuming) == (State.EXEC, ("cpu:0",), False)


def test_a_released_pause_queues_for_its_slots() -> None:
    """Resuming after a release waits for slots, and a cancel ends the waiting."""
    run = make(State.EXEC)
    run = take(run, decide(run, PauseRequested(release=True), NOW))
    assert run.slots == ()
    run = take(run, decide(run, ResumeRequested(), NOW))
    assert run.queued
    granted = decide(run, SlotsGranted(("cpu:1",), 1, "boot"), NOW)
    assert take(run, granted).state is State.EXEC
    assert granted.instructions == (SignalGroup(signal.SIGCONT),)
    stopping = take(run, decide(run, CancelRequested(1.0), NOW))
    assert not stopping.queued
    assert decide(stopping, SlotsGranted(("cpu:1",), 1, "boot"), NOW) == Decision()


@pytest.mark.parametrize("state", [State.INIT, State.HSHK, State.RDY, State.FAULT, State.TERM])
def test_what_cannot_be_paused_says_why(state: State) -> None:
    """Pausing and resuming where it makes no sense is refused in words."""
    run = make(state, outcome="failed" if state is State.TERM else "")
    assert RUN_ID in decide(run, PauseRequested(), NOW).refusal
    assert RUN_ID in decide(run, ResumeRequested(), NOW).refusal


@pytest.mark.parametrize(
    ("fields", "end", "outcome", "reason"),
    [
        ({"completion_seen": True}, ProcessEnded(0, None, 1.0), "completed", ""),
        ({}, ProcessEnded(0, None, 1.0), "failed", "no completion record"),
        ({"completion_seen": True}, ProcessEnded(3, None, 1.0), "failed", "exit code 3 after"),
        ({}, ProcessEnded(None, 9, 1.0), "failed", "signal 9 (SIGKILL)"),
        ({}, ProcessEnded(None, 9, 1.0, memory=True), "failed", "out of memory"),
        ({"failure_reported": "no such env"}, ProcessEnded(1, None, 1.0), "failed", "no such env"),
        ({}, ProcessEnded(127, None, 1.0, "could not be started"), "failed", "not be started"),
        ({}, ProcessEnded(None, None, 1.0), "lost", "vanished"),
        ({"completion_seen": True}, ProcessEnded(None, None, 1.0), "completed", "not"),
        (
            {"stopping": "time_limit", "stop_reason": "2 min"},
            ProcessEnded(None, 9, 1.0),
            "time_limit",
            "2 min",
        ),
        (
            {"stopping": "cancelled", "completion_seen": True},
            ProcessEnded(0, None, 1.0),
            "completed",
            "",
        ),
        ({"stopping": "interrupted"}, ProcessEnded(None, None, 1.0), "interrupted", ""),
    ],
)
def test_verdicts(fields: dict[str, object], end: ProcessEnded, outcome: str, reason: str) -> None:
    """Evidence of the process outranks what the worker said; a stop explains the rest."""
    run = make(State.EXEC, **fields)
    ended = take(run, decide(run, end, NOW))
    assert ended.outcome == outcome
    assert reason in ended.reason


def test_stragglers_are_a_fault() -> None:
    """A worker that left processes behind has not completed."""
    run = make(State.EXEC, completion_seen=True)
    run = take(run, decide(run, StragglersFound(2), NOW))
    ended = take(run, decide(run, ProcessEnded(0, None, 1.0), NOW))
    assert (ended.outcome, ended.reason) == ("failed", "the worker left 2 processes behind")


def test_deadlines_only_count_where_they_apply() -> None:
    """A deadline that no longer concerns the run's state is ignored."""
    for state, kind in (
        (State.EXEC, "handshake"),
        (State.PAUSE, "heartbeat"),
        (State.EXEC, "grace"),
        (State.EXEC, "exit"),
    ):
        assert decide(make(state), DeadlinePassed(kind), NOW) == Decision()
    assert decide(make(State.RDY), DeadlinePassed("heartbeat"), NOW).events


def test_slots_only_for_those_who_wait() -> None:
    """Slots that come twice or too late are not taken."""
    assert decide(make(State.EXEC), SlotsGranted(("cpu:1",), 1, "b"), NOW) == Decision()
    first = decide(Run(RUN_ID), SlotsGranted(("cpu:1",), 1, "b"), NOW)
    assert first.instructions == (Launch(),)
    taken = take(Run(RUN_ID), first)
    assert decide(taken, SlotsGranted(("cpu:0",), 1, "b"), NOW) == Decision()


def test_an_illegal_transition_prints_the_history() -> None:
    """A log that does not fit names every event up to the one that does not."""
    events = [
        Event(1, 1.0, 1.0, Submitted()),
        Event(2, 1.0, 1.0, WorkerSpawned(supervisor_pid=1, pid=2)),
        Event(3, 1.0, 1.0, Started()),
    ]
    with pytest.raises(InvalidTransitionError, match="cannot become EXEC") as error:
        replay(RUN_ID, events)
    assert "history: 1 submitted, 2 spawned, 3 run_started" in str(error.value)


def test_events_are_dense() -> None:
    """A missing event is an error, not a guess."""
    with pytest.raises(InvalidTransitionError, match=r"event 3 .* after event 0"):
        evolve(Run(RUN_ID), Event(3, 1.0, 1.0, Submitted()))


def test_a_row_survives_being_stored() -> None:
    """A row written as plain data and read back is the same row."""
    run = make(State.EXEC, tags=("a", "b"), capabilities={"supports_pause": True}, seed=3)
    run = take(run, decide(run, WorkerSaid("checkpoint_saved", _CHECKPOINT), NOW))
    assert run_from_dict(run_to_dict(run)) == run


_CHECKPOINT = {"path": "checkpoints/a", "step": 5, "sha256": "0" * 64, "kind": "full"}


def test_a_run_from_a_file_learns_what_the_file_is_of() -> None:
    """The worker says algorithm and environment; what the configuration says stays as it is."""
    said = WorkerSaid("run_started", {"algo": "ppo", "env_id": "Acrobot-v1", "total": 5})
    unknown = replace(make(State.RDY), algo="", env_id="")
    started = take(unknown, decide(unknown, said, NOW))
    assert (started.state, started.algo, started.env_id) == (State.EXEC, "ppo", "Acrobot-v1")
    known = replace(unknown, algo="dqn", env_id="CartPole-v1")
    started = take(known, decide(known, said, NOW))
    assert (started.algo, started.env_id) == ("dqn", "CartPole-v1")
    odd = WorkerSaid("run_started", {"algo": 5, "env_id": ["x"]})
    assert take(unknown, decide(unknown, odd, NOW)).algo == ""


@pytest.mark.parametrize(("stop_at", "share"), [(None, 1.0), (50, 0.5), (100, 1.0)])
def test_a_run_that_was_to_stop_before_the_end_is_not_done(
    stop_at: int | None, share: float
) -> None:
    """A completed run is at 100 %, also without its last batch; half a schedule is half."""
    run = replace(make(State.TERM), outcome="completed", total_timesteps=100, stop_at=stop_at)
    stored = StoredRun(run, Vitals(step=stop_at or 96, total=100), 1)
    assert read_run(run_message(stored, "/runs/x")).progress.fraction == share
