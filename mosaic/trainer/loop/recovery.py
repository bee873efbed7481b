"""Reading a home back: rows from event logs, and what became of runs without a daemon.

Three kinds of evidence, because each alone has a gap. The supervisor's lock says that one lives,
but not which process is the worker. A recorded pid names the worker, but may belong to another
process by now, which the start time tells. The marker in the environment finds what has left the
process group, but a process may have cleared it.
"""

import fcntl
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mosaic.config.paths import Home
from mosaic.errors import MosaicError, RunDamagedError, StorageError
from mosaic.records.run import Outcome
from mosaic.runs import eventlog, opening
from mosaic.runs.directory import RunDirectory
from mosaic.runs.ids import is_run_id
from mosaic.system.processes import (
    ProcessKey,
    boot_id,
    has_marker,
    is_alive,
    parent_of,
    start_time,
)
from mosaic.system.shortage import shortage
from mosaic.trainer.core.states import Run, State
from mosaic.trainer.core.stimuli import Adopted, LaunchUndone, Stimulus
from mosaic.trainer.loop import damage
from mosaic.trainer.storage import history
from mosaic.trainer.storage.registry import Registry, StoredRun, Vitals
from mosaic.workers.lifecycle import LifecycleLine, parse_line

# Modification times come from the file system's clock, which may run behind ours.
_CLOCK_SLACK_S = 5.0
_LAST_WORDS = 16 * 1024

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Evidence:
    """What the disk and the process table say about a run at start-up."""

    spawned: bool
    ended: bool
    supervisor_starting: bool
    alive: bool


def judge(run: Run, evidence: Evidence, epoch: int) -> Stimulus | None:
    """What a new daemon must tell the state machine first; the observer finds out the rest."""
    # Neither a record nor a lock: nothing was started, or a supervisor is so young that it has not
    # taken its lock yet. Launching again is safe all the same, because the lock lets only one of
    # the two begin.
    began = evidence.spawned or evidence.ended or evidence.supervisor_starting
    if run.launching and not began:
        return LaunchUndone()
    if run.state is not State.INIT and evidence.alive and not evidence.ended:
        return Adopted(epoch)
    return None


def gather(directory: RunDirectory, keys: Sequence[ProcessKey]) -> Evidence:
    """Look at the disk and the process table."""
    return Evidence(
        spawned=bool(keys) or opening.is_regular(directory.supervisor),
        ended=opening.is_regular(directory.exit),
        supervisor_starting=_lock_held(directory.supervisor_lock),
        alive=any(is_alive(key) for key in keys),
    )


def gather_elsewhere(run: Run, directory: RunDirectory) -> Evidence:
    """The same for a run of another machine, whose processes cannot be seen.

    A job that its engine has taken counts as a start: what became of it is asked later. One that
    began counts as alive until there is evidence of its end.
    """
    spawned, ended = opening.is_regular(directory.supervisor), opening.is_regular(directory.exit)
    return Evidence(spawned, ended, supervisor_starting=bool(run.job), alive=spawned)


def marked_keys(run: Run) -> list[ProcessKey]:
    """The same from the row and the process table, for a run whose `supervisor.json` is damaged.

    A pid alone proves nothing, so only a worker that carries the run's marker counts; its
    supervisor is its parent.
    """
    started = start_time(run.pid) if run.pid else None
    if started is None or not has_marker(run.pid, run.run_id):
        return []
    keys = [ProcessKey(run.pid, started, boot_id())]
    supervisor = start_time(run.supervisor_pid)
    if supervisor is not None and parent_of(run.pid) == run.supervisor_pid:
        keys.append(ProcessKey(run.supervisor_pid, supervisor, boot_id()))
    return keys


def last_vitals(run: Run, run_dir: Path) -> Vitals:
    """The vital signs of an ended run, from the last lines of its own log."""
    step, total, metrics, heard = 0, 0, dict[str, float](), 0.0
    for raw in opening.read_end(run_dir, "logs/stdout.log", _LAST_WORDS).split(b"\n"):
        line = parse_line(raw, run.run_id, 0)
        if isinstance(line, LifecycleLine):
            heard = run.finished_at
            if line.event == "metrics":
                step, total, values = line.metrics()
                metrics.update(values)
    return Vitals(step=step, total=total, metrics=metrics, last_heartbeat=heard)


@dataclass(frozen=True)
class Found:
    """What a home holds: every live run, the newest epoch and the newest id seen."""

    live: list[tuple[Run, Vitals]]
    epoch: int
    newest_id: str


def reconcile(home: Home, registry: Registry) -> Found:
    """Bring the registry up to date with the run directories, which are the truth."""
    live = {stored.run.run_id: stored for stored in registry.live() if not stored.run.damaged}
    known, covered = registry.ids(), registry.covered_until() - _CLOCK_SLACK_S
    damaged = registry.ids(Outcome.DAMAGED)
    epoch, seen = 0, set[str]()
    for run_dir in _run_directories(home):
        name = run_dir.name
        seen.add(name)
        # Ten thousand ended runs must not be read at every start: a log that is older than the
        # newest commit of the registry holds nothing that the registry has not. A damaged one is
        # always read, because someone may have repaired it.
        settled = name in known and name not in live and name not in damaged
        if settled and not _changed_since(run_dir, covered):
            continue
        run, vitals = _bring_back(registry, run_dir, registry.get(name) if name in known else None)
        _put_in_its_place(home, run, run_dir)
        epoch = max(epoch, run.epoch)
        live.pop(name, None)
        if run.live:
            live[name] = StoredRun(run, vitals, 0)
    for name in damaged - seen:
        registry.remove(name)  # its files are gone, and there never was more than them
    registry.flush(timeout_s=60.0)
    found = [(live[run_id].run, live[run_id].vitals) for run_id in sorted(live)]
    return Found(found, epoch, max(registry.ids(), default=""))


def _bring_back(registry: Registry, run_dir: Path, stored: StoredRun | None) -> tuple[Run, Vitals]:
    """One run as its log, or failing that the registry, has it; the registry knows it afterwards.

    This is a fence: whatever its files hold, only this run suffers.
    """
    try:
        run = read_back(run_dir, known=stored is not None and not stored.run.damaged)
    except Exception as error:
        if isinstance(error, OSError) and shortage(error):
            # Not this run's fault: a daemon that started now would call sound runs damaged.
            raise StorageError(f"the machine is short: {error.strerror}; try again") from error
        if not isinstance(error, MosaicError | OSError):
            log.exception("run %s: its files are beyond what was foreseen", run_dir.name)
        run = damage.damaged_run(run_dir, damage.describe(error))
    # A registry that knows more than the log: the run directory was removed or cut while the
    # daemon went on, so the row is all that is left.
    if stored and not stored.run.damaged and run.version < stored.run.version:
        return stored.run, stored.vitals
    if run.damaged:
        log.error("run %s is damaged: %s", run.run_id, run.reason)
        damage.end_processes(run.run_id)
    vitals = stored.vitals if stored else Vitals() if run.live else _vitals(run, run_dir)
    if stored is None or run.version > stored.run.version or run.outcome != stored.run.outcome:
        registry.put(run, vitals)
    return run, vitals


def read_back(run_dir: Path, known: bool = False) -> Run:
    """A run from its directory.

    Args:
        run_dir: The directory.
        known: The registry has the run. Otherwise its log alone counts, so what is damaged at the
            log's end is set aside and the run continues from what is left.

    Raises:
        RunDamagedError: Its log makes no sense, or contradicts what else is there.
        OSError: It cannot be read.
    """
    run = history.load(run_dir, mend=not known)
    if run is None:
        raise RunDamagedError(f"run {run_dir.name}: there is no event log with a whole event")
    directory = RunDirectory(run_dir, run.attempt)
    if opening.is_regular(directory.imported):
        run = replace(run, idempotency_key="")  # spent in another home
    # Nothing is started before its slots are on record, so this log has lost its end. Without
    # the check the run would wait to be started a second time.
    waits = run.state is State.INIT and not run.slots
    if waits and (opening.is_regular(directory.exit) or opening.is_regular(directory.supervisor)):
        problem = f"its event log ends with event {run.version}, but its worker was started"
        raise RunDamagedError(f"run {run.run_id}: {problem}")
    return run


def _vitals(run: Run, run_dir: Path) -> Vitals:
    try:
        return last_vitals(run, run_dir)
    except Exception:
        log.exception("run %s: its last lines cannot be understood", run.run_id)
        return Vitals()


def _run_directories(home: Home) -> Iterator[Path]:
    for folder in (home.runs, home.trash):
        for name in sorted(os.listdir(folder)):
            if is_run_id(name):
                yield folder / name


def _changed_since(run_dir: Path, moment: float) -> bool:
    try:
        return os.stat(run_dir / eventlog.FILE_NAME).st_mtime >= moment
    except OSError:
        return False


def _put_in_its_place(home: Home, run: Run, run_dir: Path) -> None:
    """Finish a move to or from the trash that a crash interrupted."""
    place = (home.trash if run.deleted else home.runs) / run.run_id
    if place != run_dir and not os.path.lexists(place):
        try:
            os.rename(run_dir, place)
        except OSError as error:
            log.error("run %s stays in %s: %s", run.run_id, run_dir.parent, error)


def _lock_held(path: Path) -> bool:
    """Whether a supervisor holds its lock."""
    try:
        descriptor = opening.open_regular(path.parent, path.name, os.O_RDWR)
    except OSError:
        return False  # no supervisor could take what is no file
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
