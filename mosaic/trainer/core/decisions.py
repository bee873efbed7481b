"""What happens next: `decide(run, stimulus, now)` gives events to record and things to do.

Pure. The engine feeds it stimuli (calls, the worker's words, deadlines, deaths), appends the
events, folds them into the row and carries out the instructions, in this order.
"""

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mosaic.trainer.core.states import WITH_PROCESS, Outcome, Run, State
from mosaic.trainer.core.stimuli import (
    Adopted,
    CancelRequested,
    CheckpointRequested,
    DeadlinePassed,
    HandshakeRefused,
    LaunchFailed,
    LaunchUndone,
    PauseRequested,
    ProcessEnded,
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


@dataclass(frozen=True)
class Launch:
    """Start the supervisor."""


@dataclass(frozen=True)
class Forestall:
    """Make sure that a supervisor which has not begun never will."""


@dataclass(frozen=True)
class SignalGroup:
    """Send a signal to the run's process group."""

    number: int


@dataclass(frozen=True)
class KillEverything:
    """SIGKILL the group and sweep for processes that left it."""


@dataclass(frozen=True)
class SendControl:
    """Tell the worker on its control stream: `pause`, `resume` or `checkpoint`."""

    command: str


@dataclass(frozen=True)
class Archive:
    """The run is over: keep its logs, close its sessions."""


Instruction = Launch | Forestall | SignalGroup | KillEverything | SendControl | Archive


_Events = tuple[tuple[str, Mapping[str, Any]], ...]


@dataclass(frozen=True)
class Now:
    """The two clocks."""

    wall: float
    mono: float


@dataclass(frozen=True)
class Decision:
    """What to record and what to do."""

    events: _Events = ()
    instructions: tuple[Instruction, ...] = ()
    refusal: str = ""


NOTHING = Decision()


def decide(run: Run, stimulus: Stimulus, now: Now) -> Decision:
    """The one place that says what a stimulus means for a run in its state."""
    if not run.live:
        return _after_the_end(run, stimulus)
    match stimulus:
        case SlotsGranted():
            return _slots_granted(run, stimulus)
        case LaunchUndone():
            return Decision((("launch_undone", {}),)) if run.launching else NOTHING
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
            waits = run.state is State.EXEC and run.pausing
            return Decision((("paused", {}),)) if waits else NOTHING
        case WorkerResumed():
            goes_on = (run.state is State.PAUSE or run.pausing) and bool(run.slots)
            return Decision((("resumed", {}),)) if goes_on else NOTHING
        case CheckpointRequested():
            return _checkpoint(run)
        case WorkerCheckpointed():
            return Decision((("checkpoint_confirmed", {}),)) if run.checkpointing else NOTHING
        case WorkerRefused():
            refused = ("checkpoint_refused", {"reason": stimulus.reason})
            return Decision((refused,)) if run.checkpointing else NOTHING
        case DeadlinePassed():
            return _deadline(run, stimulus, now)
        case SignOfLife():
            return Decision((("recovered", {}),)) if run.stalled else NOTHING
        case Adopted():
            return Decision((("adopted", {"epoch": stimulus.epoch}),))
        case StragglersFound():
            plural = "process" if stimulus.count == 1 else "processes"
            return _fault(run, f"the worker left {stimulus.count} {plural} behind")
        case ProcessEnded():
            return _ended(run, stimulus)


def _after_the_end(run: Run, stimulus: Stimulus) -> Decision:
    if isinstance(stimulus, CheckpointRequested):
        return Decision(refusal=f"run {run.run_id} has ended ({run.outcome}); it saves no more")
    if isinstance(stimulus, PauseRequested | ResumeRequested):
        return Decision(refusal=f"run {run.run_id} has ended ({run.outcome}); clone or resume it")
    return NOTHING


def _slots_granted(run: Run, stimulus: SlotsGranted) -> Decision:
    if run.state is State.INIT and not run.slots and not run.stopping:
        data = {
            "slots": list(stimulus.slots),
            "epoch": stimulus.epoch,
            "boot_id": stimulus.boot_id,
        }
        return Decision((("slots_reserved", data),), (Launch(),))
    if run.state is State.PAUSE and run.queued:
        events = (("slots_regained", {"slots": list(stimulus.slots)}),)
        return _continue(run, events)
    return NOTHING


def _not_launched(run: Run, stimulus: LaunchFailed, now: Now) -> Decision:
    if run.state is not State.INIT:
        return NOTHING
    if run.stopping:
        return _settle(run, Outcome(run.stopping), run.stop_reason, now.wall)
    return _settle(run, Outcome.FAILED, stimulus.reason, now.wall)


def _registered(run: Run, stimulus: WorkerRegistered) -> Decision:
    """A worker may shake hands again when the first answer was lost."""
    capabilities = dict(stimulus.capabilities)
    known = run.state is not State.HSHK and run.capabilities == capabilities
    if known or run.state not in (State.HSHK, State.RDY, State.EXEC, State.PAUSE):
        return NOTHING
    return Decision((("worker_registered", {"capabilities": capabilities}),))


def _spawned(run: Run, stimulus: Spawned) -> Decision:
    if run.state is not State.INIT:
        return NOTHING
    data = {"supervisor_pid": stimulus.supervisor_pid, "pid": stimulus.pid}
    instructions = (SignalGroup(signal.SIGTERM),) if run.stopping else ()
    return Decision((("spawned", data),), instructions)


def _worker_said(run: Run, stimulus: WorkerSaid) -> Decision:
    match stimulus.event:
        case "run_started":
            return Decision((("run_started", {}),)) if run.state is State.RDY else NOTHING
        case "checkpoint_saved":
            return Decision((("checkpoint_saved", dict(stimulus.data)),))
        case "run_completed":
            return Decision((("completion_reported", dict(stimulus.data)),))
        case "run_failed":
            return Decision((("failure_reported", dict(stimulus.data)),))
    return Decision((("worker_note", {**stimulus.data, "event": stimulus.event}),))


def _cancel(run: Run, stimulus: CancelRequested, now: Now) -> Decision:
    if run.state is State.INIT and not run.slots:
        return _settle(run, stimulus.outcome, stimulus.reason, now.wall)
    if run.state is State.FAULT:
        return NOTHING
    if run.stopping:
        sooner = now.mono + stimulus.grace_s < run.kill_at_mono
        if not sooner:
            return NOTHING
        outcome, reason = run.stopping, run.stop_reason
    else:
        outcome, reason = stimulus.outcome, stimulus.reason
    data = {"outcome": outcome, "reason": reason, "kill_at_mono": now.mono + stimulus.grace_s}
    instructions: list[Instruction] = []
    if run.state in WITH_PROCESS and not run.stopping:
        instructions.append(SignalGroup(signal.SIGTERM))
        if run.pause_by_signal:
            instructions.append(SignalGroup(signal.SIGCONT))
    return Decision((("stop_requested", data),), tuple(instructions))


def _pause(run: Run, stimulus: PauseRequested) -> Decision:
    if run.state is State.PAUSE or run.pausing:
        return NOTHING
    if run.state is not State.EXEC or run.stopping:
        doing = f"being stopped ({run.stopping})" if run.stopping else str(run.state)
        return Decision(refusal=f"run {run.run_id} is {doing}; only a run in EXEC can be paused")
    by_signal = not run.capabilities.get("supports_pause", False)
    request = ("pause_requested", {"by_signal": by_signal, "release": stimulus.release})
    if by_signal:
        return Decision((request, ("paused", {})), (SignalGroup(signal.SIGSTOP),))
    return Decision((request,), (SendControl("pause"),))


def _resume(run: Run) -> Decision:
    if run.pausing and run.state is State.EXEC:
        return Decision((("resume_requested", {}),), (SendControl("resume"),))
    if run.state is not State.PAUSE or run.stopping:
        doing = f"being stopped ({run.stopping})" if run.stopping else str(run.state)
        return Decision(refusal=f"run {run.run_id} is {doing}, not paused")
    if run.resuming:
        return NOTHING
    request: _Events = (("resume_requested", {}),)
    return _continue(run, request) if run.slots else Decision(request)


def _continue(run: Run, events: _Events) -> Decision:
    if run.pause_by_signal:
        return Decision((*events, ("resumed", {})), (SignalGroup(signal.SIGCONT),))
    return Decision(events, (SendControl("resume"),))


def _checkpoint(run: Run) -> Decision:
    problem = _why_not_saved(run)
    if problem:
        return Decision(refusal=f"run {run.run_id} {problem}")
    # Asked again while the first answer is awaited: the worker may have lost the question.
    events: _Events = () if run.checkpointing else (("checkpoint_requested", {}),)
    return Decision(events, (SendControl("checkpoint"),))


def _why_not_saved(run: Run) -> str:
    if run.stopping:
        return f"is being stopped ({run.stopping}); a worker that can save does so by itself"
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
            return Decision(instructions=(Forestall(),))
        case "handshake" if run.state is State.HSHK and not run.stopping:
            return _fault(run, f"handshake timeout: {stimulus.detail}")
        case "wallclock" if not run.stopping:
            limit = CancelRequested(stimulus.grace_s, Outcome.TIME_LIMIT, stimulus.detail)
            return _cancel(run, limit, now)
        case "grace" if run.stopping or run.state is State.FAULT:
            return Decision(instructions=(KillEverything(),))
        case "heartbeat" if run.state in (State.RDY, State.EXEC) and not run.stalled:
            return Decision((("stalled", {"detail": stimulus.detail}),))
    return NOTHING


def _fault(run: Run, reason: str) -> Decision:
    if run.state is State.FAULT:
        return Decision(instructions=(KillEverything(),))
    return Decision((("faulted", {"reason": reason}),), (KillEverything(),))


def _ended(run: Run, end: ProcessEnded) -> Decision:
    outcome, reason = _verdict(run, end)
    ended = ("process_ended", {"code": end.code, "signal": end.signal, "detail": end.detail})
    settled = _settle(run, outcome, reason, end.finished_at)
    vanished = outcome is Outcome.LOST and run.state is not State.FAULT
    fault: _Events = (("faulted", {"reason": reason}),) if vanished else ()
    return Decision((*fault, ended, *settled.events), settled.instructions)


def _settle(run: Run, outcome: Outcome, reason: str, finished_at: float) -> Decision:
    data = {"outcome": str(outcome), "reason": reason, "finished_at": finished_at}
    return Decision((("settled", data),), (Archive(),))


def _verdict(run: Run, end: ProcessEnded) -> tuple[Outcome, str]:
    """How the run ended. Evidence of the process outranks what the worker said."""
    finished = end.code == 0 and run.completion_seen
    if finished and run.state is not State.FAULT:
        return Outcome.COMPLETED, ""
    if run.stopping:
        return Outcome(run.stopping), run.stop_reason
    if run.state is State.FAULT and not run.completion_seen:
        said = run.failure_reported
        return Outcome.FAILED, f"{run.reason}; the worker said: {said}" if said else run.reason
    if end.code is None and end.signal is None:
        if run.completion_seen:
            return Outcome.COMPLETED, "the completion record was seen, the exit code was not"
        return Outcome.LOST, end.detail or "its processes vanished without an exit record"
    return Outcome.FAILED, _failure_reason(run, end)


def _failure_reason(run: Run, end: ProcessEnded) -> str:
    if end.memory:
        return f"ran out of memory ({describe_exit(end)})"
    if end.detail:
        return end.detail
    if end.code == 0:
        if run.completion_seen:
            return run.reason
        return "no completion record: the worker exited 0 without run_completed"
    if run.failure_reported:
        return run.failure_reported
    after = " after run_completed" if run.completion_seen else ""
    return f"{describe_exit(end)}{after}"


def describe_exit(end: ProcessEnded) -> str:
    """A process's end in words."""
    if end.signal is not None:
        try:
            name = f" ({signal.Signals(end.signal).name})"
        except ValueError:
            name = ""
        return f"killed by signal {end.signal}{name}"
    return f"exit code {end.code}"
