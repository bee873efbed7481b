"""What happens next: `decide(run, stimulus, now)` gives events to record and things to do.

Pure. The engine feeds it stimuli (calls, the worker's lines, deadlines, ended processes), appends
the events, folds them into the row and carries out the instructions, in this order: after a
crash the log shows what may still have to be done.
"""

import signal

from mosaic.records.run import Outcome
from mosaic.trainer.core.eventcodec import decode
from mosaic.trainer.core.events import (
    AdoptedByDaemon,
    Alarmed,
    Annotated,
    CheckpointAsked,
    CheckpointConfirmed,
    CheckpointRefused,
    ContactLost,
    ContactRegained,
    Copied,
    Deleted,
    Faulted,
    LaunchTakenBack,
    PauseAsked,
    Paused,
    Placed,
    ProcessesEnded,
    Recovered,
    Registered,
    Requeued,
    Restored,
    ResumeAsked,
    Resumed,
    RunEvent,
    Settled,
    SlotsRegained,
    SlotsReserved,
    Stalled,
    Started,
    StoodStill,
    StopAsked,
    WorkerNoted,
    WorkerRestarted,
    WorkerSpawned,
)
from mosaic.trainer.core.instructions import (
    Archive,
    Instruction,
    KillEverything,
    Launch,
    MoveBack,
    MoveToTrash,
    PinCheckpoint,
    PreventStart,
    SendControl,
    SignalGroup,
    Withdraw,
)
from mosaic.trainer.core.states import WITH_PROCESS, Run, State
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
    HeardAgain,
    ImportedAsCopy,
    JobPlaced,
    LaunchFailed,
    LaunchUndone,
    MachineTaken,
    PauseRequested,
    ProcessEnded,
    RestoreRequested,
    ResumeRequested,
    SignOfLife,
    SilenceFound,
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
from mosaic.trainer.core.value import value
from mosaic.trainer.core.verdict import own_word, verdict

_Events = tuple[RunEvent, ...]
_LONGEST_NAME = 200
# What a worker's line means for its run; any other line is a note.
_SAID = {
    "checkpoint_saved": "checkpoint_saved",
    "run_completed": "completion_reported",
    "run_failed": "failure_reported",
}


@value
class Now:
    """The two clocks."""

    wall: float
    mono: float


@value
class Decision:
    """What to record and what to do."""

    events: _Events = ()
    instructions: tuple[Instruction, ...] = ()
    refusal: str = ""


NOTHING = Decision()


def decide(run: Run, stimulus: Stimulus, now: Now) -> Decision:
    """The one place that says what a stimulus means for a run in its state."""
    # Notes, trash and origin are about the record, so they are possible in every state.
    match stimulus:
        case AnnotateRequested():
            return _annotate(stimulus)
        case DeleteRequested():
            return _delete(run, stimulus)
        case RestoreRequested():
            return Decision((Restored(),), (MoveBack(),)) if run.deleted else NOTHING
        case ImportedAsCopy():
            return Decision((Copied(stimulus.original),))
    if not run.live:
        return _after_the_end(run, stimulus)
    match stimulus:
        case SlotsGranted():
            return _slots_granted(run, stimulus)
        case JobPlaced():
            return _placed(run, stimulus)
        case MachineTaken():
            return _requeued(run, stimulus, now)
        case SilenceFound():
            silent = run.state in WITH_PROCESS and not run.unreachable
            return Decision((ContactLost(stimulus.detail),)) if silent else NOTHING
        case HeardAgain():
            return Decision((ContactRegained(),)) if run.unreachable else NOTHING
        case LaunchUndone():
            return _taken_back(run, stimulus, now)
        case LaunchFailed():
            return _not_launched(run, stimulus, now)
        case Spawned():
            return _spawned(run, stimulus)
        case WorkerRegistered():
            return _registered(run, stimulus)
        case HandshakeRefused():
            return _fault(run, stimulus.reason)
        case WorkerSaid():
            return _worker_said(run, stimulus)
        case CancelRequested():
            return _cancel(run, stimulus, now)
        case PauseRequested():
            return _pause(run, stimulus)
        case ResumeRequested():
            return _resume(run)
        case WorkerPaused():
            # May come twice: a worker repeats it to a daemon it has reconnected to.
            waits = run.state is State.EXEC and run.pausing
            return Decision((Paused(),)) if waits else NOTHING
        case WorkerResumed():
            # Without slots the run is queued; it must not train outside the queue.
            continues = (run.state is State.PAUSE or run.pausing) and bool(run.slots)
            return Decision((Resumed(),)) if continues else NOTHING
        case CheckpointRequested():
            return _checkpoint(run)
        case WorkerCheckpointed():
            return Decision((CheckpointConfirmed(),)) if run.checkpointing else NOTHING
        case WorkerRefused():
            refused = CheckpointRefused(stimulus.reason)
            return Decision((refused,)) if run.checkpointing else NOTHING
        case DeadlinePassed():
            return _deadline(run, stimulus, now)
        case SignOfLife():
            return Decision((Recovered(),)) if run.stalled else NOTHING
        case FreezeEnded():
            return Decision((StoodStill(stimulus.seconds),))
        case AlarmRaised():
            return _alarm(run, stimulus)
        case Adopted():
            return Decision((AdoptedByDaemon(stimulus.epoch),))
        case StragglersFound():
            plural = "process" if stimulus.count == 1 else "processes"
            return _fault(run, f"the worker left {stimulus.count} {plural} behind")
        case ProcessEnded():
            return _ended(run, stimulus)


def _annotate(stimulus: AnnotateRequested) -> Decision:
    change = Annotated(stimulus.run_name, stimulus.notes, stimulus.tags, stimulus.priority)
    return NOTHING if change == Annotated() else Decision((change,))


def _delete(run: Run, stimulus: DeleteRequested) -> Decision:
    if run.live:
        text = f"run {run.run_id} is {run.state}; cancel it first: mosaic cancel {run.run_id}"
        return Decision(refusal=text)
    # A purge leaves no log that could hold an event.
    if stimulus.purge or run.deleted:
        return NOTHING
    return Decision((Deleted(),), (MoveToTrash(),))


def _after_the_end(run: Run, stimulus: Stimulus) -> Decision:
    if isinstance(stimulus, CheckpointRequested):
        return Decision(refusal=f"run {run.run_id} has ended ({run.outcome}); it saves no more")
    if isinstance(stimulus, PauseRequested | ResumeRequested):
        text = (
            f"run {run.run_id} has ended ({run.outcome}); to continue it from its checkpoint: "
            f"mosaic train {run.algo or run.worker} --resume {run.run_id}"
        )
        return Decision(refusal=text)
    return NOTHING


def _slots_granted(run: Run, stimulus: SlotsGranted) -> Decision:
    if run.state is State.INIT and not run.slots and not run.stopping:
        reserved = SlotsReserved(stimulus.slots, stimulus.epoch, stimulus.boot_id)
        return Decision((reserved,), (Launch(),))
    # A paused run that released its slots waits in the same queue as new ones.
    if run.state is State.PAUSE and run.queued:
        return _continue(run, (SlotsRegained(stimulus.slots),))
    return NOTHING


def _placed(run: Run, stimulus: JobPlaced) -> Decision:
    if not run.launching or run.job == stimulus.job:
        return NOTHING
    # Cancelled while the engine was being asked: now there is a job to take back.
    instructions = (Withdraw(),) if run.stopping else ()
    return Decision((Placed(stimulus.job),), instructions)


def _requeued(run: Run, stimulus: MachineTaken, now: Now) -> Decision:
    """The same run waits again. One that was to end has ended: its processes are gone."""
    if run.state is State.INIT:
        return NOTHING
    if run.stopping:
        ended = _settle(run, Outcome(run.stopping), run.stop_reason, now.wall)
        return Decision(ended.events, (Withdraw(), *ended.instructions))
    if run.state is State.FAULT:
        ended = _settle(run, Outcome.FAILED, run.reason, now.wall)
        return Decision(ended.events, (Withdraw(), *ended.instructions))
    return Decision((Requeued(stimulus.reason),))


def _taken_back(run: Run, stimulus: LaunchUndone, now: Now) -> Decision:
    if not run.launching:
        return NOTHING
    # Cancelled while it was being launched: in the queue nothing would ever look at it again.
    if run.stopping:
        return _settle(run, Outcome(run.stopping), run.stop_reason, now.wall)
    return Decision((LaunchTakenBack(stimulus.reason),))


def _not_launched(run: Run, stimulus: LaunchFailed, now: Now) -> Decision:
    if run.state is not State.INIT:
        return NOTHING
    # Cancelled in the meantime: the user's wish is the outcome, not a failure after it.
    if run.stopping:
        return _settle(run, Outcome(run.stopping), run.stop_reason, now.wall)
    return _settle(run, Outcome.FAILED, stimulus.reason, now.wall)


def _registered(run: Run, stimulus: WorkerRegistered) -> Decision:
    """A worker may shake hands again when the first answer was lost."""
    capabilities = dict(stimulus.capabilities)
    known = run.state is not State.HSHK and run.capabilities == capabilities
    if known or run.state not in (State.HSHK, State.RDY, State.EXEC, State.PAUSE):
        return NOTHING
    return Decision((Registered(capabilities),))


def _spawned(run: Run, stimulus: Spawned) -> Decision:
    if run.state is not State.INIT:
        killed = run.state in WITH_PROCESS and stimulus.pid != run.pid
        return Decision((WorkerRestarted(stimulus.pid),)) if killed else NOTHING
    # Cancelled while it was being launched: now there is a group to signal.
    instructions = (SignalGroup(signal.SIGTERM),) if run.stopping else ()
    spawned = WorkerSpawned(stimulus.supervisor_pid, stimulus.pid, stimulus.host)
    return Decision((spawned,), instructions)


def _worker_said(run: Run, stimulus: WorkerSaid) -> Decision:
    if stimulus.event == "run_started":
        # A worker says it again when it joins late; only the first one after the handshake counts.
        return Decision((_started(run, stimulus),)) if run.state is State.RDY else NOTHING
    if stimulus.event in _SAID:
        return Decision((decode(_SAID[stimulus.event], dict(stimulus.data)),))
    return Decision((WorkerNoted(stimulus.event, stimulus.data),))


def _started(run: Run, stimulus: WorkerSaid) -> Started:
    """A run that was begun from a file alone learns from its worker what the file is of."""
    algo, env_id = stimulus.data.get("algo"), stimulus.data.get("env_id")
    return Started(
        algo[:_LONGEST_NAME] if isinstance(algo, str) and algo and not run.algo else None,
        env_id[:_LONGEST_NAME] if isinstance(env_id, str) and env_id and not run.env_id else None,
    )


def _alarm(run: Run, stimulus: AlarmRaised) -> Decision:
    """Each rule once: a run that is ill stays so, and its history is to be read by people."""
    if any(alarm.rule == stimulus.rule for alarm in run.alarms):
        return NOTHING
    # The row names what was saved; `kept` says what has not been pruned since.
    healthy = [
        item
        for item in run.checkpoints
        if item.kind == "full" and item.step <= stimulus.step and item.path in stimulus.kept
    ]
    last = max(healthy, key=lambda item: item.step, default=None)
    alarmed = Alarmed(
        stimulus.rule,
        stimulus.step,
        stimulus.evidence,
        stimulus.advice,
        last.path if last else "",
        last.step if last else None,
    )
    return Decision((alarmed,), (PinCheckpoint(last.path),) if last else ())


def _cancel(run: Run, stimulus: CancelRequested, now: Now) -> Decision:
    # Still in the queue: there is no process to wait for.
    if run.state is State.INIT and not run.slots:
        return _settle(run, stimulus.outcome, stimulus.reason, now.wall)
    # Its processes are being killed already, and a fault must not end as "cancelled".
    if run.state is State.FAULT:
        return NOTHING
    if run.stopping:
        # A second cancel can shorten the grace period; it changes neither outcome nor reason.
        sooner = now.mono + stimulus.grace_s < run.kill_at_mono
        if not sooner:
            return NOTHING
        outcome, reason = Outcome(run.stopping), run.stop_reason
    else:
        outcome, reason = stimulus.outcome, stimulus.reason
    instructions: list[Instruction] = []
    if run.state in WITH_PROCESS and not run.stopping:
        instructions.append(SignalGroup(signal.SIGTERM))
        # TERM first and CONT after it: the other way round the group would train a little more.
        if run.pause_by_signal:
            instructions.append(SignalGroup(signal.SIGCONT))
    # An engine may keep a job waiting for days; the user is not to wait for that.
    if run.placed:
        instructions.append(Withdraw())
    asked = StopAsked(outcome, reason, kill_at_mono=now.mono + stimulus.grace_s)
    return Decision((asked,), tuple(instructions))


def _pause(run: Run, stimulus: PauseRequested) -> Decision:
    if run.state is State.PAUSE or run.pausing:
        return NOTHING
    if run.state is not State.EXEC or run.stopping:
        doing = f"being stopped ({run.stopping})" if run.stopping else str(run.state)
        return Decision(refusal=f"run {run.run_id} is {doing}; only a run in EXEC can be paused")
    # A stopped group cannot answer, so such a run counts as paused at once.
    by_signal = not run.capabilities.get("supports_pause", False)
    asked = PauseAsked(by_signal, stimulus.release)
    if by_signal:
        return Decision((asked, Paused()), (SignalGroup(signal.SIGSTOP),))
    return Decision((asked,), (SendControl("pause"),))


def _resume(run: Run) -> Decision:
    # The pause has not happened yet. The worker gets both commands in order and answers `resumed`.
    if run.pausing and run.state is State.EXEC:
        return Decision((ResumeAsked(),), (SendControl("resume"),))
    if run.state is not State.PAUSE or run.stopping:
        doing = f"being stopped ({run.stopping})" if run.stopping else str(run.state)
        return Decision(refusal=f"run {run.run_id} is {doing}, not paused")
    if run.resuming:
        return NOTHING
    asked = (ResumeAsked(),)
    # Without slots it waits in the queue; `SlotsGranted` then continues it.
    return _continue(run, asked) if run.slots else Decision(asked)


def _continue(run: Run, events: _Events) -> Decision:
    if run.pause_by_signal:
        return Decision((*events, Resumed()), (SignalGroup(signal.SIGCONT),))
    return Decision(events, (SendControl("resume"),))


def _checkpoint(run: Run) -> Decision:
    problem = _why_not_saved(run)
    if problem:
        return Decision(refusal=f"run {run.run_id} {problem}")
    # Asked again while the first answer is awaited: the worker may have lost the question.
    events: _Events = () if run.checkpointing else (CheckpointAsked(),)
    return Decision(events, (SendControl("checkpoint"),))


def _why_not_saved(run: Run) -> str:
    if run.stopping:
        return f"is being stopped ({run.stopping}); a worker that can save does so now"
    if run.state not in (State.RDY, State.EXEC, State.PAUSE):
        return f"is {run.state}; a checkpoint can be written in RDY, EXEC or PAUSE"
    if not run.capabilities.get("supports_checkpoint", False):
        return (
            f"cannot write a checkpoint on request: its worker ({run.worker}, mode {run.mode}) "
            "does not support that"
        )
    if run.state is State.PAUSE and run.pause_by_signal:
        return f"is stopped by a signal and cannot save; first: mosaic resume {run.run_id}"
    return ""


def _deadline(run: Run, stimulus: DeadlinePassed, now: Now) -> Decision:
    match stimulus.kind:
        case "launch" if run.launching:
            # Nothing to record yet: either the supervisor starts after all, or the end that
            # PreventStart writes is found like that of any other run.
            return Decision(instructions=(PreventStart(),))
        case "handshake" if run.state is State.HSHK and not run.stopping:
            return _fault(run, f"handshake timeout: {stimulus.detail}")
        case "wallclock" if not run.stopping:
            # Like a cancellation, so that the worker can still save what it has.
            limit = CancelRequested(stimulus.grace_s, Outcome.TIME_LIMIT, stimulus.detail)
            return _cancel(run, limit, now)
        case "exit" if run.overdue:
            # All is done and said, only the process is still there: it ends as what it said.
            outcome, reason = own_word(run)
            overdue = CancelRequested(stimulus.grace_s, outcome, reason or stimulus.detail)
            return _cancel(run, overdue, now)
        # Every turn again, until the end is seen: what was being forked when the last signal was
        # sent is caught by the next.
        case "grace" if run.stopping or run.state is State.FAULT:
            return Decision(instructions=(KillEverything(),))
        # Not in PAUSE: a run that is stopped by a signal cannot beat.
        case "heartbeat" if run.state in (State.RDY, State.EXEC) and not run.stalled:
            return Decision((Stalled(stimulus.detail),))
    return NOTHING


def _fault(run: Run, reason: str) -> Decision:
    # The first reason stays: later ones are mostly its consequences.
    if run.state is State.FAULT:
        return Decision(instructions=(KillEverything(),))
    return Decision((Faulted(reason),), (KillEverything(),))


def _ended(run: Run, end: ProcessEnded) -> Decision:
    outcome, reason = verdict(run, end)
    ended = ProcessesEnded(end.code, end.signal, end.detail)
    settled = _settle(run, outcome, reason, end.finished_at)
    vanished = outcome is Outcome.LOST and run.state is not State.FAULT
    # The way to TERM of a run without an exit record leads through FAULT, so that its history
    # shows that something went wrong and not only that it ended.
    fault = (Faulted(reason),) if vanished else ()
    return Decision((*fault, ended, *settled.events), settled.instructions)


def _settle(run: Run, outcome: Outcome, reason: str, finished_at: float) -> Decision:
    return Decision((Settled(outcome, reason, finished_at),), (Archive(run.slots),))
