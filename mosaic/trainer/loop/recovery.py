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
from dataclasses import dataclass
from pathlib import Path

from mosaic.config.paths import Home
from mosaic.errors import RunDamagedError
from mosaic.runs import eventlog
from mosaic.runs.directory import RunDirectory, read_json
from mosaic.runs.ids import is_run_id
from mosaic.system.processes import (
    ProcessKey,
    boot_id,
    has_marker,
    is_alive,
    parent_of,
    start_time,
)
from mosaic.trainer.core.states import Run, State
from mosaic.trainer.core.stimuli import (
    Adopted,
    LaunchUndone,
    Stimulus,
)
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
    if run.launching and not evidence.spawned and not evidence.supervisor_starting:
        return LaunchUndone()
    if run.state is not State.INIT and evidence.alive and not evidence.ended:
        return Adopted(epoch)
    return None


def gather(directory: RunDirectory, keys: Sequence[ProcessKey]) -> Evidence:
    """Look at the disk and the process table."""
    return Evidence(
        spawned=bool(keys) or directory.supervisor.exists(),
        ended=directory.exit.exists(),
        supervisor_starting=_lock_held(directory.supervisor_lock),
        alive=any(is_alive(key) for key in keys),
    )


def process_keys(directory: RunDirectory) -> list[ProcessKey]:
    """The worker and its supervisor, as the supervisor wrote them down."""
    document = read_json(directory.supervisor)
    if document is None:
        return []
    try:
        boot = str(document["boot_id"])
        worker = ProcessKey(int(document["pid"]), int(document["start_time"]), boot)
        shim = ProcessKey(
            int(document["supervisor_pid"]), int(document["supervisor_start_time"]), boot
        )
    except (KeyError, TypeError, ValueError):
        return []
    return [worker, shim]


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


def load_run(run_dir: Path) -> Run | None:
    """A run from its event log; None when the log holds nothing usable.

    One damaged log must not keep a daemon from all the other runs, so it is named in the daemon's
    log and passed over.
    """
    try:
        return history.load(run_dir)
    except RunDamagedError as error:
        log.error("%s", error)
        return None


def last_vitals(run: Run, run_dir: Path) -> Vitals:
    """The vital signs of an ended run, from the last lines of its own log."""
    step, total, metrics, heard = 0, 0, dict[str, float](), 0.0
    for raw in _last_lines(RunDirectory(run_dir).stdout):
        line = parse_line(raw, run.run_id, 0)
        if isinstance(line, LifecycleLine):
            heard = run.finished_at
            if line.event == "metrics":
                step, total = line.fields["step"], line.fields.get("total", 0)
                metrics |= line.fields["values"]
    return Vitals(step=step, total=total, metrics=metrics, last_heartbeat=heard)


def _last_lines(path: Path) -> list[bytes]:
    try:
        with open(path, "rb") as log_file:
            log_file.seek(0, os.SEEK_END)
            log_file.seek(max(0, log_file.tell() - _LAST_WORDS))
            return log_file.read().split(b"\n")
    except OSError:
        return []


@dataclass(frozen=True)
class Found:
    """What a home holds: every live run, the newest epoch and the newest id seen."""

    live: list[tuple[Run, Vitals]]
    epoch: int
    newest_id: str


def reconcile(home: Home, registry: Registry) -> Found:
    """Bring the registry up to date with the run directories, which are the truth."""
    live = {stored.run.run_id: stored for stored in registry.live()}
    known, covered = registry.ids(), registry.covered_until() - _CLOCK_SLACK_S
    epoch = 0
    for run_dir in _run_directories(home):
        name = run_dir.name
        # Ten thousand ended runs must not be read at every start: a log that is older than the
        # newest commit of the registry holds nothing that the registry has not.
        if name in known and name not in live and not _changed_since(run_dir, covered):
            continue
        stored = registry.get(name) if name in known else None
        run = load_run(run_dir) if stored else _reload(run_dir)
        # A registry that knows more than the log: the run directory was removed or cut while the
        # daemon went on, so the row is all that is left.
        if run is None or (stored and run.version < stored.run.version):
            if stored is None:
                continue
            run = stored.run
        vitals = stored.vitals if stored else Vitals() if run.live else last_vitals(run, run_dir)
        if stored is None or run.version > stored.run.version:
            registry.put(run, vitals)
        _put_in_its_place(home, run, run_dir)
        epoch = max(epoch, run.epoch)
        live.pop(name, None)
        if run.live:
            live[name] = StoredRun(run, vitals, 0)
    registry.flush(timeout_s=60.0)
    found = [(live[run_id].run, live[run_id].vitals) for run_id in sorted(live)]
    return Found(found, epoch, max(registry.ids(), default=""))


def _reload(run_dir: Path) -> Run | None:
    """A run the registry does not know: its log alone counts, so what is damaged is set aside."""
    eventlog.repair(run_dir)
    return load_run(run_dir)


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
    if place != run_dir and not place.exists():
        os.rename(run_dir, place)


def _lock_held(path: Path) -> bool:
    """Whether a supervisor holds its lock."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
