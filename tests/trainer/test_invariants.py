"""A random world of runs, processes and crashes, in which the invariants always hold."""

import json
import signal
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from mosaic.trainer.core.decisions import Now, decide
from mosaic.trainer.core.eventcodec import decode, encode
from mosaic.trainer.core.events import Request, RunEvent, Submitted
from mosaic.trainer.core.folding import evolve, replay
from mosaic.trainer.core.instructions import (
    Archive,
    KillEverything,
    Launch,
    MoveBack,
    MoveToTrash,
    PreventStart,
    SendControl,
    SignalGroup,
)
from mosaic.trainer.core.scheduler import Claim, Machine, plan
from mosaic.trainer.core.states import WITH_PROCESS, Event, Run, State
from mosaic.trainer.core.stimuli import (
    Adopted,
    AlarmRaised,
    AnnotateRequested,
    CancelRequested,
    CheckpointRequested,
    DeadlinePassed,
    DeleteRequested,
    FreezeEnded,
    HandshakeRefused,
    LaunchFailed,
    LaunchUndone,
    PauseRequested,
    ProcessEnded,
    RestoreRequested,
    ResumeRequested,
    SignOfLife,
    SlotsGranted,
    Spawned,
    Stimulus,
    StragglersFound,
    WorkerCheckpointed,
    WorkerPaused,
    WorkerRefused,
    WorkerRegistered,
    WorkerResumed,
    WorkerSaid,
)
from mosaic.trainer.loop.recovery import Evidence, judge

CPUS = ("cpu:0", "cpu:1", "cpu:2")
_WORDS = ("run_started", "run_completed", "run_failed", "checkpoint_saved", "note")
_FIELDS: dict[str, dict[str, Any]] = {
    "run_failed": {"reason": "it said so"},
    "checkpoint_saved": {"path": "c", "step": 1, "sha256": "", "kind": "full"},
}
_ANYTHING: list[Stimulus] = [
    LaunchUndone(),
    LaunchFailed("late"),
    HandshakeRefused("protocol"),
    SignOfLife(),
    FreezeEnded(6.0),
    CheckpointRequested(),
    WorkerCheckpointed(),
    WorkerRefused("the disk is full"),
    AnnotateRequested(notes="a note"),
    AnnotateRequested(run_name="", tags=("a",)),
    DeleteRequested(),
    DeleteRequested(purge=True),
    RestoreRequested(),
    Adopted(2),
    AlarmRaised("kl-explosion", 1, "far", kept=("c",)),
    AlarmRaised("kl-zero", 0, "nothing"),
    StragglersFound(1),
    *[
        DeadlinePassed(kind)
        for kind in ("launch", "handshake", "wallclock", "grace", "heartbeat", "exit")
    ],
]


def _stored(what: RunEvent) -> RunEvent:
    """An event after it was written to the log as JSON and read back."""
    kind, data = encode(what)
    return decode(kind, json.loads(json.dumps(data)))


@dataclass
class World:
    """What is really there for one run, whatever its row says."""

    launch_ordered: bool = False
    supervisor_refused: bool = False
    alive: bool = False
    ever_alive: bool = False
    exit: tuple[int | None, int | None] | None = None
    events: list[Event] = field(default_factory=list)
    last_words: tuple[str, str] | None = None


class Trainer(RuleBasedStateMachine):
    """Drives the pure parts as the engine does, with a model of the processes beside them."""

    runs = Bundle("runs")

    def __init__(self) -> None:
        super().__init__()
        self.clock = 100.0
        self.rows: dict[str, Run] = {}
        self.worlds: dict[str, World] = {}

    # ------------------------------------------------------------ the engine's part

    def apply(self, run_id: str, stimulus: Stimulus) -> None:
        self.clock += 0.5
        now = Now(1e9 - self.clock, self.clock)
        world, row = self.worlds[run_id], self.rows[run_id]
        decision = decide(row, stimulus, now)
        for what in decision.events:
            event = Event(row.version + 1, now.wall, now.mono, what)
            row = evolve(row, event)
            world.events.append(event)
        self.rows[run_id] = row
        for instruction in decision.instructions:
            match instruction:
                case Launch():
                    world.launch_ordered = True
                case PreventStart():
                    world.supervisor_refused = not world.ever_alive
                case KillEverything():
                    self.end(world, None, int(signal.SIGKILL))
                case SignalGroup(signal.SIGKILL):
                    self.end(world, None, int(signal.SIGKILL))
                case SendControl("resume") | SignalGroup(signal.SIGCONT):
                    assert row.slots or row.stopping, "told to go on without a slot to go on in"
                case MoveToTrash() | MoveBack():
                    assert not row.live, "a live run was moved"
                case Archive():
                    assert not world.alive, "archived while its processes live"

    def end(self, world: World, code: int | None, number: int | None) -> None:
        if world.alive:
            world.alive, world.exit = False, (code, number)

    # ------------------------------------------------------------ what people do

    @initialize(target=runs, steps=st.integers(0, 8), able=st.booleans())
    def begin_somewhere(self, steps: int, able: bool) -> str:
        run_id = self.submit(cpus=1)
        self.goes_its_way(run_id, steps, able)
        return run_id

    @precondition(lambda self: len(self.rows) < 4)
    @rule(target=runs, cpus=st.integers(1, 3))
    def submit(self, cpus: int) -> str:
        run_id = f"{len(self.rows):026d}"
        event = Event(1, 1e9 - self.clock, self.clock, Submitted(request=Request(cpus)))
        self.rows[run_id] = evolve(Run(run_id), event)
        self.worlds[run_id] = World(events=[event])
        return run_id

    @rule(run=runs, grace=st.sampled_from([0.0, 5.0]), sure=st.integers(0, 4))
    def cancel(self, run: str, grace: float, sure: int) -> None:
        if sure == 0:  # seldom, or no run would live long enough to meet the rest
            self.apply(run, CancelRequested(grace))

    @rule(run=runs, release=st.booleans())
    def pause(self, run: str, release: bool) -> None:
        self.apply(run, PauseRequested(release))

    @rule(run=runs)
    def resume(self, run: str) -> None:
        self.apply(run, ResumeRequested())

    @rule(run=runs, able=st.booleans())
    def resumed_while_others_have_its_slots(self, run: str, able: bool) -> None:
        """A pause that gave its slots back, somebody who took them, and the wish to go on."""
        self.goes_its_way(run, 6, able)
        if self.rows[run].state is not State.EXEC or self.rows[run].stopping:
            return
        self.pause(run, release=True)
        self.goes_its_way(run, 1, able)
        self.schedule()
        self.resume(run)
        assert self.rows[run].queued or self.rows[run].state is State.EXEC

    @rule(run=runs, steps=st.integers(1, 6), able=st.booleans())
    def goes_its_way(self, run: str, steps: int, able: bool) -> None:
        """Some steps of a run that nothing happens to, so that the others meet it everywhere."""
        for _ in range(steps):
            world, row = self.worlds[run], self.rows[run]
            if row.queued:
                self.schedule()
            elif row.launching and not world.ever_alive:
                self.supervisor_starts_the_worker(run)
            elif row.launching or world.exit is not None:
                self.look(run)
            elif row.state is State.HSHK:
                self.worker_registers(run, able)
            elif row.state is State.RDY:
                self.worker_speaks(run, "run_started")
            elif row.pausing:
                self.apply(run, WorkerPaused())
            elif row.state is State.PAUSE and row.resuming:
                self.apply(run, WorkerResumed())

    # ------------------------------------------------------------ what the daemon does

    @rule()
    def schedule(self) -> None:
        held: dict[str, str] = {}
        for row in self.rows.values():
            held.update(dict.fromkeys(row.slots, row.run_id))
        claims = [Claim(r.run_id, r.request, 0, r.run_id) for r in self.rows.values() if r.queued]
        for run_id, slots in plan(claims, Machine(CPUS, held=held)).grants.items():
            self.apply(run_id, SlotsGranted(slots, 1, "boot"))

    @rule(run=runs)
    def look(self, run: str) -> None:
        """The observer: spawned, ended, launch refused, in the order of the real one."""
        world, row = self.worlds[run], self.rows[run]
        if row.launching and world.supervisor_refused:
            self.apply(run, LaunchFailed("the supervisor never began"))
        elif row.launching and world.ever_alive:
            self.apply(run, Spawned(1, 2))
        elif row.live and row.state is not State.INIT and world.exit is not None:
            self.apply(run, ProcessEnded(*world.exit, 1e9 - self.clock))

    @rule()
    def daemon_is_killed_and_starts_again(self) -> None:
        for run_id, world in self.worlds.items():
            stored = [replace(each, what=_stored(each.what)) for each in world.events]
            self.rows[run_id] = replay(run_id, stored)
            starting = world.launch_ordered and not world.supervisor_refused
            evidence = Evidence(world.ever_alive, world.exit is not None, starting, world.alive)
            stimulus = judge(self.rows[run_id], evidence, epoch=2)
            if stimulus is not None and self.rows[run_id].live:
                self.apply(run_id, stimulus)

    # ------------------------------------------------------------ what processes do

    @rule(run=runs)
    def supervisor_starts_the_worker(self, run: str) -> None:
        world = self.worlds[run]
        if world.launch_ordered and not world.ever_alive and not world.supervisor_refused:
            world.alive = world.ever_alive = True

    @rule(run=runs, code=st.sampled_from([0, 1, 143]), killed=st.booleans())
    def worker_ends(self, run: str, code: int, killed: bool) -> None:
        self.end(self.worlds[run], None if killed else code, 9 if killed else None)

    @rule(run=runs)
    def worker_vanishes_without_a_record(self, run: str) -> None:
        self.end(self.worlds[run], None, None)

    @rule(run=runs, word=st.sampled_from(_WORDS))
    def worker_speaks(self, run: str, word: str) -> None:
        if self.worlds[run].alive and self.rows[run].state is not State.INIT:
            self.apply(run, WorkerSaid(word, _FIELDS.get(word, {})))

    @rule(run=runs, able=st.booleans())
    def worker_registers(self, run: str, able: bool) -> None:
        if self.worlds[run].alive and self.rows[run].state is not State.INIT:
            self.apply(run, WorkerRegistered({"supports_pause": able, "supports_checkpoint": able}))

    @rule(run=runs, report=st.sampled_from([WorkerPaused(), WorkerResumed()]))
    def worker_reports(self, run: str, report: Stimulus) -> None:
        if self.worlds[run].alive:
            self.apply(run, report)

    @rule(run=runs, stimulus=st.sampled_from(_ANYTHING))
    def anything_at_any_time(self, run: str, stimulus: Stimulus) -> None:
        world = self.worlds[run]
        if isinstance(stimulus, LaunchUndone) and world.launch_ordered:
            return  # only said by a new daemon that has proof
        if isinstance(stimulus, LaunchFailed) and self.rows[run].state is State.INIT:
            return  # only said with proof, see `look`
        if isinstance(stimulus, HandshakeRefused | StragglersFound) and not world.ever_alive:
            return  # nobody there to be refused or left behind
        self.apply(run, stimulus)

    @rule(run=runs, slot=st.sampled_from(CPUS))
    def late_grant(self, run: str, slot: str) -> None:
        """A grant that comes when the run no longer waits is not taken."""
        if not self.rows[run].queued:
            self.apply(run, SlotsGranted((slot,), 1, "boot"))

    # ------------------------------------------------------------ what always holds

    @invariant()
    def one_owner_per_slot_and_never_more_than_there_are(self) -> None:
        held = [slot for row in self.rows.values() for slot in row.slots]
        assert len(held) == len(set(held))
        assert set(held) <= set(CPUS)

    @invariant()
    def terminal_is_final(self) -> None:
        for run_id, row in self.rows.items():
            world = self.worlds[run_id]
            if world.last_words is not None:
                assert (row.state, row.outcome) == (State.TERM, world.last_words[0])
            elif row.state is State.TERM:
                world.last_words = (row.outcome, row.reason)
                assert row.outcome

    @invariant()
    def a_state_with_a_process_has_one_or_awaits_its_settling(self) -> None:
        for run_id, row in self.rows.items():
            if row.state in WITH_PROCESS:
                world = self.worlds[run_id]
                assert world.alive or world.exit is not None

    @invariant()
    def slots_are_freed_only_on_proof_of_death(self) -> None:
        for run_id, row in self.rows.items():
            if self.worlds[run_id].alive:
                assert row.live
                assert row.slots or row.state is State.PAUSE or row.stopping

    @invariant()
    def whoever_works_has_the_slots_it_asked_for(self) -> None:
        for row in self.rows.values():
            if row.state is State.EXEC:
                assert len(row.slots) == row.request.cpus

    @invariant()
    def events_are_dense_and_replay_to_the_row(self) -> None:
        for run_id, world in self.worlds.items():
            assert [event.seq for event in world.events] == list(range(1, len(world.events) + 1))
            assert replay(run_id, world.events) == self.rows[run_id]

    @invariant()
    def nobody_waits_for_ever_while_slots_are_free(self) -> None:
        queued = [row for row in self.rows.values() if row.queued]
        held = {slot: row.run_id for row in self.rows.values() for slot in row.slots}
        if queued and not held:
            claims = [Claim(row.run_id, Request(row.request.cpus), 0, row.run_id) for row in queued]
            assert plan(claims, Machine(CPUS)).grants


TestTrainer = Trainer.TestCase
TestTrainer.settings = settings(max_examples=300, stateful_step_count=40)
