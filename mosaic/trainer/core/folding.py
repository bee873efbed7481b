"""From events to the row: what each event changes. Pure, and the only way a row changes."""

from collections.abc import Iterable
from dataclasses import replace

from mosaic.errors import InvalidTransitionError
from mosaic.trainer.core.events import (
    AdoptedByDaemon,
    Alarmed,
    Annotated,
    CheckpointAsked,
    CheckpointConfirmed,
    CheckpointRefused,
    CheckpointSaved,
    CompletionReported,
    ContactLost,
    ContactRegained,
    Copied,
    Deleted,
    FailureReported,
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
    Settled,
    SlotsRegained,
    SlotsReserved,
    Stalled,
    Started,
    StoodStill,
    StopAsked,
    Submitted,
    WorkerNoted,
    WorkerRestarted,
    WorkerSpawned,
)
from mosaic.trainer.core.states import TRANSITIONS, Alarm, Checkpoint, Event, Run, State

# A run keeps this many checkpoints in its row; the files are the worker's to prune.
_MOST_CHECKPOINTS = 50
# More than there are rules; a worker that invents names without end is cut off.
_MOST_ALARMS = 20


def evolve(run: Run, event: Event) -> Run:
    """The row after one more event.

    Raises:
        InvalidTransitionError: The event is out of order or the state machine forbids it.
    """
    kind = event.what.kind
    # Dense numbers make a lost or doubled line visible; timestamps could not.
    if event.seq != run.version + 1:
        raise InvalidTransitionError(
            f"run {run.run_id}: event {event.seq} ({kind}) after event {run.version}"
        )
    changed = _fold(run, event)
    if changed.state is not run.state and (run.state, changed.state) not in TRANSITIONS:
        raise InvalidTransitionError(
            f"run {run.run_id} is {run.state} and cannot become {changed.state} by {kind!r}"
        )
    return _at_version(changed, event.seq)


def _at_version(run: Run, version: int) -> Run:
    # As `replace`, but without fifty assignments in `__init__`: this runs for every event of every
    # log when a registry is rebuilt, and `replace` took a quarter of that time.
    numbered = object.__new__(Run)
    numbered.__dict__.update(run.__dict__, version=version)
    return numbered


def replay(run_id: str, events: Iterable[Event]) -> Run:
    """The row a whole log gives.

    Raises:
        InvalidTransitionError: With the history up to the event that does not fit.
    """
    run, story = Run(run_id), []
    for event in events:
        story.append(f"{event.seq} {event.what.kind}")
        try:
            run = evolve(run, event)
        except InvalidTransitionError as error:
            raise InvalidTransitionError(f"{error}; history: {', '.join(story)}") from None
    return run


def _fold(run: Run, event: Event) -> Run:
    """One case for each kind of event, so that the type checker misses none."""
    match event.what:
        case Submitted() as what:
            return _submitted(run, what, event.at)
        case SlotsReserved() as what:
            return replace(
                run,
                slots=what.slots,
                epoch=what.epoch,
                boot_id=what.boot_id,
                launched_mono=event.mono,
            )
        case LaunchTakenBack():
            return replace(run, slots=(), job="")
        case WorkerSpawned() as what:
            return _spawned(run, what, event.mono)
        case WorkerRestarted() as what:
            return replace(run, pid=what.pid)
        case Registered() as what:
            # A worker that registers again, with a restarted daemon, keeps its state.
            state = State.RDY if run.state is State.HSHK else run.state
            return replace(run, state=state, capabilities=what.capabilities)
        case Started() as what:
            # The first time counts: a run that was preempted has not begun today.
            began = run.started_at if run.attempt > 1 else event.at
            run = replace(run, algo=what.algo or run.algo, env_id=what.env_id or run.env_id)
            return replace(run, state=State.EXEC, started_at=began, started_mono=event.mono)
        case Paused() | PauseAsked() | ResumeAsked() | Resumed() | SlotsRegained() as what:
            return _pause_and_resume(run, what, event.mono)
        case CheckpointSaved() as what:
            return _checkpoint_saved(run, what, event.at)
        case CheckpointAsked():
            return replace(run, checkpointing=True)
        case CheckpointConfirmed() | CheckpointRefused():
            return replace(run, checkpointing=False)
        case Placed() as what:
            return replace(run, job=what.job)
        case Requeued():
            return _requeued(run)
        case ContactLost() as what:
            return replace(run, unreachable=True, stalled=True, reason=what.detail)
        case ContactRegained():
            return replace(run, unreachable=False, stalled=False, reason="")
        case Stalled() as what:
            # People look for it where a run's end is explained, not in the event log.
            return replace(run, stalled=True, reason=what.detail)
        case Recovered():
            return replace(run, stalled=False, unreachable=False, reason="")
        case StoodStill() as what:
            return _stood_still(run, what.seconds)
        case Alarmed() as what:
            return _alarmed(run, what, event.at)
        case AdoptedByDaemon() as what:
            return replace(run, epoch=what.epoch)
        case CompletionReported() as what:
            return replace(run, completion_seen=True, budget_spent=_budget_spent(what))
        case FailureReported() as what:
            return replace(run, failure_reported=what.reason)
        case WorkerNoted():
            return run
        case StopAsked() | Faulted() | ProcessesEnded() | Settled() as what:
            return _ending(run, what)
        case Annotated() as what:
            return _annotated(run, what)
        case Copied() as what:
            return replace(run, parent_run_id=what.parent_run_id)
        case Deleted():
            return replace(run, deleted=True)
        case Restored():
            return replace(run, deleted=False)


def _budget_spent(what: CompletionReported) -> str:
    """Which budget ended the run, as its worker says it; empty for one that has done its work."""
    summary = what.said.get("summary")
    said = summary.get("budget") if isinstance(summary, dict) else ""
    return said if isinstance(said, str) else ""


def _submitted(run: Run, what: Submitted, at: float) -> Run:
    return replace(
        run,
        run_name=what.run_name,
        worker=what.worker,
        module=what.module,
        algo=what.algo,
        env_id=what.env_id,
        seed=what.seed,
        mode=what.mode,
        total_timesteps=what.total_timesteps,
        stop_at=what.stop_at,
        priority=what.priority,
        parent_run_id=what.parent_run_id,
        parent_step=what.parent_step,
        idempotency_key=what.idempotency_key,
        cold=what.cold,
        request=what.request,
        wallclock_s=what.wallclock_s,
        site=what.site,
        tags=what.tags,
        notes=what.notes,
        created_at=at,
    )


def _spawned(run: Run, what: WorkerSpawned, mono: float) -> Run:
    return replace(
        run,
        state=State.HSHK,
        supervisor_pid=what.supervisor_pid,
        pid=what.pid,
        host=what.host,
        # Set again: the launch deadline counts from the reservation, the handshake deadline and
        # the wall-clock limit from here.
        launched_mono=mono,
        frozen_total_s=0.0,
    )


def _requeued(run: Run) -> Run:
    """The row of a run that will be begun again: what belonged to its last attempt is gone.

    Its job stays: an engine may begin the same one again. A wall-clock limit counts from the
    beginning of each attempt, as SLURM's own does.
    """
    return replace(
        run,
        state=State.INIT,
        attempt=run.attempt + 1,
        slots=(),
        host="",
        pid=0,
        supervisor_pid=0,
        capabilities={},
        launched_mono=0.0,
        paused_total_s=0.0,
        frozen_total_s=0.0,
        pausing=False,
        resuming=False,
        pause_by_signal=False,
        release_on_pause=False,
        checkpointing=False,
        stalled=False,
        unreachable=False,
        completion_seen=False,
        failure_reported="",
        reason="",
    )


def _pause_and_resume(
    run: Run, what: PauseAsked | Paused | ResumeAsked | Resumed | SlotsRegained, mono: float
) -> Run:
    match what:
        case PauseAsked():
            return replace(
                run,
                pausing=True,
                resuming=False,
                pause_by_signal=what.by_signal,
                release_on_pause=what.release,
            )
        case Paused():
            slots = () if run.release_on_pause else run.slots
            # No longer stalled: while paused, silence is expected.
            run = replace(run, state=State.PAUSE, pausing=False, paused_mono=mono, slots=slots)
            return replace(run, stalled=False, reason="") if run.stalled else run
        case ResumeAsked():
            # A worker that is still on its way to a pause keeps its slots: it continues at once.
            return replace(run, resuming=True, release_on_pause=False)
        case SlotsRegained():
            return replace(run, slots=what.slots)
        case Resumed():
            # Time in a pause does not count towards the wall-clock limit.
            idle = mono - run.paused_mono if run.state is State.PAUSE else 0.0
            return replace(
                run,
                state=State.EXEC,
                pausing=False,
                resuming=False,
                release_on_pause=False,
                paused_total_s=run.paused_total_s + idle,
            )


def _stood_still(run: Run, seconds: float) -> Run:
    """The row with its limits moved by a time in which nothing could be done, never by more."""
    # Time in a pause is left out of the wall-clock limit already.
    worked = 0.0 if run.state is State.PAUSE else seconds
    # Nor could a worker that was asked to stop use its grace period.
    patience = seconds if run.stopping else 0.0
    return replace(
        run,
        frozen_total_s=run.frozen_total_s + worked,
        kill_at_mono=run.kill_at_mono + patience,
    )


def _checkpoint_saved(run: Run, what: CheckpointSaved, at: float) -> Run:
    saved = Checkpoint(what.path, what.step, what.sha256, what.content, at)
    # Saved again under the same name: the file was replaced, and its old checksum with it.
    others = tuple(kept for kept in run.checkpoints if kept.path != saved.path)
    return replace(run, checkpoints=(*others, saved)[-_MOST_CHECKPOINTS:])


def _alarmed(run: Run, what: Alarmed, at: float) -> Run:
    alarm = Alarm(
        what.rule,
        what.step,
        what.evidence,
        what.advice,
        what.checkpoint,
        what.checkpoint_step,
        raised_at=at,
    )
    return replace(run, alarms=(*run.alarms, alarm)[:_MOST_ALARMS])


def _ending(run: Run, what: StopAsked | Faulted | ProcessesEnded | Settled) -> Run:
    match what:
        case StopAsked():
            return replace(
                run,
                stopping=str(what.outcome),
                stop_reason=what.reason,
                kill_at_mono=what.kill_at_mono,
            )
        case Faulted():
            return replace(run, state=State.FAULT, reason=what.reason)
        case ProcessesEnded():
            return replace(run, exit_code=what.code, exit_signal=what.signal)
        case Settled():
            return replace(
                run,
                state=State.TERM,
                outcome=str(what.outcome),
                reason=what.reason,
                finished_at=what.finished_at,
                slots=(),
                stalled=False,
                unreachable=False,
                pausing=False,
                resuming=False,
                checkpointing=False,
            )


def _annotated(run: Run, what: Annotated) -> Run:
    """Exactly these four fields; reading the event has refused any other."""
    return replace(
        run,
        run_name=run.run_name if what.run_name is None else what.run_name,
        notes=run.notes if what.notes is None else what.notes,
        tags=run.tags if what.tags is None else what.tags,
        priority=run.priority if what.priority is None else what.priority,
    )
