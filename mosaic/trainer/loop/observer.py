"""Watching one run from outside: its log lines, its processes, its clocks.

`observe` turns what is seen into stimuli. The run itself changes only by these. What `observe`
does change is the run's `Watch`.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace

from mosaic.config.settings import Settings
from mosaic.config.sites import LOCAL
from mosaic.records.run import Outcome
from mosaic.runs import opening
from mosaic.runs.opening import read_document
from mosaic.trainer.core.decisions import Now
from mosaic.trainer.core.evidence import Alive, NeverBegan, Over, Silent, Taken, Waiting
from mosaic.trainer.core.states import Run, State
from mosaic.trainer.core.stimuli import (
    CancelRequested,
    DeadlinePassed,
    FreezeEnded,
    HeardAgain,
    JobPlaced,
    LaunchFailed,
    LaunchUndone,
    MachineTaken,
    ProcessEnded,
    SignOfLife,
    SilenceFound,
    Spawned,
    Stimulus,
    StragglersFound,
    WorkerSaid,
)
from mosaic.trainer.loop.watch import LONGEST_PLACE, Watch
from mosaic.trainer.sites.interface import Site
from mosaic.workers.lifecycle import (
    VITAL_SIGNS,
    LifecycleLine,
    Metrics,
    QuarantinedLine,
    parse_line,
)

# A cold interpreter on a loaded machine with a slow disk needs tens of seconds to import torch,
# but the supervisor reports before that. Only a broken one is silent for this long.
_LAUNCH_LIMIT_S = 90.0
_MEMORY_MARKS = (b"MemoryError", b"std::bad_alloc", b"can't allocate memory", b"out of memory")
_STDERR_TAIL = 16 * 1024
_NOTES = frozenset({"note", "alarm", "curriculum_stage", "phase_started"})
# Each note is an event and so an fsync; a worker that floods must not slow the others down.
_NOTES_A_TURN = 50
# What one run may take of a turn, in lines of plain output. A line of ours is parsed, an event is
# brought to the disk: 75 events, or 3,000 heartbeats, then the others have their turn. More than
# all the notes of a turn cost, so that a flood of them is counted away instead of being stored.
_COST_OF_A_LINE, _COST_OF_AN_EVENT, _COST_OF_A_TURN = 10, 400, 30_000
_MAX_METRICS = 200
_LONGEST_TEXT = 2000

log = logging.getLogger(__name__)


def observe(run: Run, watch: Watch, settings: Settings, now: Now, site: Site) -> Iterator[Stimulus]:
    """Everything new about a run that has slots or processes.

    A generator: the caller applies each stimulus before the next is looked for. So `run` is a
    snapshot and may be stale; `watch` is updated in place.
    """
    if watch.frozen_s:
        # First of all and alone: no limit may be judged by a row that does not know of it. The next
        # daemon knows it from the log. A disk that refuses the event brings us here again.
        yield FreezeEnded(watch.frozen_s)
        watch.frozen_s = 0.0
        return
    # Before the log: what a worker said before its end is then read before its end is reported.
    news = site.news(run, watch, now)
    if isinstance(news, Waiting):
        _wait_for(watch, news.reason)
        return
    if isinstance(news, NeverBegan):
        yield from _never_began(run, watch, news, settings, site)
        return
    yield from _launch_news(run, watch, now)
    yield from _log_lines(run, watch, settings, now)
    match news:
        case Alive() | Silent():
            yield from _contact(run, news)
            yield from _deadlines(run, watch, settings, now)
        case Taken():
            if not watch.tailer.behind:
                yield MachineTaken(news.reason)
        case Over():
            if not watch.tailer.behind:
                yield from _end(run, watch, news, settings, now, site)


def _wait_for(watch: Watch, reason: str) -> None:
    """Show why a run that its engine has taken does not begin."""
    if watch.wait_reason != reason:
        watch.wait_reason, watch.vitals_dirty = reason, True


def _never_began(
    run: Run, watch: Watch, news: NeverBegan, settings: Settings, site: Site
) -> Iterator[Stimulus]:
    # Only if no supervisor has come first: that one begins, whatever the engine says.
    if not site.withdraw(run, watch):
        return
    if news.stopped is not None:
        yield CancelRequested(settings.grace_s, news.stopped, news.reason)
    if news.again or news.stopped is not None:
        _wait_for(watch, "")
        yield LaunchUndone(news.reason)
    else:
        yield LaunchFailed(news.reason)


def _contact(run: Run, news: Alive | Silent) -> Iterator[Stimulus]:
    if isinstance(news, Silent) and not run.unreachable:
        yield SilenceFound(news.detail)
    elif isinstance(news, Alive) and run.unreachable:
        yield HeardAgain()


def _launch_news(run: Run, watch: Watch, now: Now) -> Iterator[Stimulus]:
    if not run.launching:
        if run.pid and watch.keys and watch.keys[0].pid != run.pid:
            yield Spawned(run.supervisor_pid, watch.keys[0].pid, watch.host)
        return
    ended = read_document(watch.directory.exit)
    if ended and ended.get("error"):
        yield LaunchFailed(_not_started(ended))
        return
    if watch.worker_key() is not None:
        _wait_for(watch, "")
        # A daemon may have died between handing the run over and writing down its job.
        if watch.job != run.job:
            yield JobPlaced(watch.job)
        yield Spawned(watch.keys[1].pid, watch.keys[0].pid, watch.host)
    elif now.mono - max(run.launched_mono, watch.watched_mono) > _LAUNCH_LIMIT_S:
        yield DeadlinePassed("launch")


def _not_started(ended: Mapping[str, object]) -> str:
    said = str(ended["error"])[:_LONGEST_TEXT].encode(errors="replace").decode()
    return f"the worker could not be started: {said}; run: mosaic doctor"


def _log_lines(run: Run, watch: Watch, settings: Settings, now: Now) -> Iterator[Stimulus]:
    """What the worker said since last time."""
    oversized, notes, cost = watch.tailer.oversized, 0, 0
    with closing(watch.tailer.poll()) as lines:
        for line in lines:
            parsed = parse_line(line, run.run_id, watch.vitals.log_seq)
            noted = isinstance(parsed, LifecycleLine) and parsed.event in _NOTES
            notes += noted
            if noted and notes > _NOTES_A_TURN:
                parsed = QuarantinedLine("more notes than one turn takes")
            if isinstance(parsed, QuarantinedLine):
                _quarantine(watch, 1)
            elif isinstance(parsed, LifecycleLine):
                yield from _lifecycle_line(run, watch, parsed, settings, now)
            cost += _cost(parsed)
            if cost > _COST_OF_A_TURN:
                break
    _quarantine(watch, watch.tailer.oversized - oversized)
    if watch.tailer.offset != watch.vitals.log_offset:
        watch.vitals = replace(watch.vitals, log_offset=watch.tailer.offset)


def _cost(parsed: LifecycleLine | QuarantinedLine | None) -> int:
    if parsed is None:
        return 1
    event = isinstance(parsed, LifecycleLine) and parsed.event not in VITAL_SIGNS
    return _COST_OF_AN_EVENT if event else _COST_OF_A_LINE


def _quarantine(watch: Watch, count: int) -> None:
    if count:
        watch.vitals = replace(watch.vitals, quarantined=watch.vitals.quarantined + count)
        watch.vitals_dirty = True


def _lifecycle_line(
    run: Run, watch: Watch, line: LifecycleLine, settings: Settings, now: Now
) -> Iterator[Stimulus]:
    watch.heartbeat_mono = now.mono
    watch.vitals = replace(watch.vitals, log_seq=line.seq, last_heartbeat=now.wall)
    watch.vitals_dirty = True
    if line.event in VITAL_SIGNS:
        watch.movement.hear(line, now.mono)
        if "doing" in line.fields:
            _wait_for(watch, str(line.fields["doing"])[:LONGEST_PLACE])
    # A pulse alone does not free a run that was found not to move.
    if run.stalled and not watch.movement.stuck(now.mono, settings.stall_after_s):
        yield SignOfLife()
    if line.event == "metrics":
        said = line.metrics()
        _take_metrics(watch, said, line.at or now.wall, now)
        yield from watch.health.metrics(run, said.step, said.total, said.values, now.mono)
    elif line.event == "alarm":
        yield watch.health.said(run, line.fields)
    elif line.event not in VITAL_SIGNS:
        yield WorkerSaid(line.event, line.fields)


def _take_metrics(watch: Watch, said: Metrics, at: float, now: Now) -> None:
    rate = watch.rate.update(said.step, now.mono)
    left = max(0, said.total - said.step)
    watch.curves.add(said.step, said.total, said.values, at)
    watch.vitals = replace(
        watch.vitals,
        step=said.step,
        total=said.total,
        metrics=_newest({**watch.vitals.metrics, **said.values}),
        eta_s=left / rate if rate > 0 else 0.0,
    )


def _newest(metrics: dict[str, float]) -> dict[str, float]:
    """A worker that invents names without end is cut off, not stored without end."""
    return dict(list(metrics.items())[-_MAX_METRICS:])


def _end(
    run: Run, watch: Watch, news: Over, settings: Settings, now: Now, site: Site
) -> Iterator[Stimulus]:
    ended = news.record
    left = site.left(run, watch, ended)
    if left:
        yield StragglersFound(left)
        return
    if news.stopped is not None:
        # Someone else's wish is recorded like a user's, so that the run ends as what it was.
        yield CancelRequested(settings.grace_s, news.stopped, news.detail)
    elif ended.get("time_limit_near"):
        detail = "the time limit of its job was near; continue it with --resume"
        yield CancelRequested(settings.grace_s, Outcome.TIME_LIMIT, detail)
    yield _process_ended(run, watch, news, now)


def _process_ended(run: Run, watch: Watch, news: Over, now: Now) -> ProcessEnded:
    ended = news.record
    if not ended:
        return ProcessEnded(None, None, now.wall, news.detail)
    code, number = ended.get("code"), ended.get("signal")
    memory = bool(ended.get("out_of_memory")) or (code != 0 and _memory_in_stderr(watch))
    return ProcessEnded(
        code=code if isinstance(code, int) and 0 <= code < 256 else None,
        signal=number if isinstance(number, int) and 0 < number < 256 else None,
        finished_at=_finished_at(run, watch, ended.get("finished_at"), now),
        detail=_not_started(ended) if ended.get("error") else "",
        memory=memory,
    )


def _finished_at(run: Run, watch: Watch, said: object, now: Now) -> float:
    """When a worker ended, by our own clock."""
    # What no clock shows would make the run's own log unreadable.
    if not isinstance(said, float) or not 0 <= said < 2**33:
        return now.wall
    if run.site == LOCAL or (run.started_at or run.created_at) <= said <= now.wall:
        return said
    # The clock of its machine is wrong. The record itself was written by the file system's clock.
    try:
        return min(os.lstat(watch.directory.exit).st_mtime, now.wall)
    except OSError:
        return now.wall


def _memory_in_stderr(watch: Watch) -> bool:
    last_words = opening.read_end(watch.directory.path, "logs/stderr.log", _STDERR_TAIL)
    return any(mark in last_words for mark in _MEMORY_MARKS)


def _deadlines(run: Run, watch: Watch, settings: Settings, now: Now) -> Iterator[Stimulus]:
    # After a restart or a freeze of the daemon the wait begins again: no one was there to register
    # with.
    waited = now.mono - max(run.launched_mono, watch.watched_mono)
    if run.state is State.HSHK and waited > settings.handshake_timeout_s:
        limit = settings.handshake_timeout_s
        yield DeadlinePassed("handshake", f"the worker did not register within {limit:g} s")
    if run.wallclock_s is not None and not run.stopping and _active_s(run, now) > run.wallclock_s:
        detail = f"the wall-clock limit of {run.wallclock_s / 60:g} min was reached"
        yield DeadlinePassed("wallclock", detail, settings.grace_s)
    if (run.stopping and now.mono > run.kill_at_mono) or run.state is State.FAULT:
        yield DeadlinePassed("grace")
    if run.overdue:
        yield from _overdue(watch, settings.grace_s, now)
    else:
        # The next attempt of a run that was placed again has said nothing yet.
        watch.last_word_mono = 0.0
    silent = now.mono - watch.heartbeat_mono
    working = run.state in (State.RDY, State.EXEC) and not run.stalled
    if working and silent > settings.stall_after_s:
        yield DeadlinePassed("heartbeat", f"no sign of life for {silent:.0f} s")
    elif working and run.state is State.EXEC:
        yield from _no_progress(run, watch, settings.stall_after_s, now)


def _overdue(watch: Watch, limit_s: float, now: Now) -> Iterator[Stimulus]:
    """A worker that has said its end and does not exit would keep its slots for ever."""
    watch.last_word_mono = watch.last_word_mono or now.mono
    if now.mono - watch.last_word_mono > limit_s:
        detail = f"it did not exit within {limit_s:g} s after its last line, and was ended"
        yield DeadlinePassed("exit", detail, limit_s)


def _no_progress(run: Run, watch: Watch, limit_s: float, now: Now) -> Iterator[Stimulus]:
    movement = watch.movement
    if movement.stuck(now.mono, limit_s):
        place = f", in {movement.where}" if movement.where else ""
        text = f"no progress since step {movement.step:,} for {now.mono - movement.since:.0f} s"
        yield DeadlinePassed("heartbeat", text + place)
        yield watch.health.no_progress(run, movement.step, text + place)


def _active_s(run: Run, now: Now) -> float:
    """Time since the start, pauses and freezes left out."""
    if not run.launched_mono:
        return 0.0
    pausing = now.mono - run.paused_mono if run.state is State.PAUSE else 0.0
    return now.mono - run.launched_mono - run.paused_total_s - run.frozen_total_s - pausing
