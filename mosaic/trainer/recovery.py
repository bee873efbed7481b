"""Reading a home back: rows from event logs, and what became of runs while nobody watched."""

import fcntl
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mosaic.config.paths import Home
from mosaic.errors import InvalidTransitionError
from mosaic.runs import eventlog
from mosaic.runs.directory import RunDirectory, read_json
from mosaic.runs.ids import is_run_id
from mosaic.trainer.decisions import Adopted, LaunchUndone, Stimulus
from mosaic.trainer.processes import ProcessKey, is_alive
from mosaic.trainer.registry import Registry, Vitals
from mosaic.trainer.states import Event, Run, State, replay

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Evidence:
    """What the disk and the process table say about a run at start-up."""

    spawned: bool
    ended: bool
    supervisor_starting: bool
    alive: bool


def judge(run: Run, evidence: Evidence, epoch: int) -> Stimulus | None:
    """What a new daemon must tell the state machine first; the observer sees to the rest."""
    if run.launching and not evidence.spawned and not evidence.supervisor_starting:
        return LaunchUndone()
    if run.state is not State.INIT and evidence.alive and not evidence.ended:
        return Adopted(epoch)
    return None


def gather(run: Run, directory: RunDirectory) -> Evidence:
    """Look at the disk and the process table."""
    return Evidence(
        spawned=directory.supervisor.exists(),
        ended=directory.exit.exists(),
        supervisor_starting=_lock_held(directory.supervisor_lock),
        alive=any(is_alive(key) for key in process_keys(directory)),
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


def load_run(run_dir: Path) -> Run | None:
    """A run from its event log; None when the log holds nothing usable."""
    events = [
        Event(line.seq, line.kind, line.at, line.mono, line.data) for line in eventlog.read(run_dir)
    ]
    if not events:
        return None
    try:
        return replay(run_dir.name, events)
    except (InvalidTransitionError, TypeError, KeyError) as error:
        log.error("run %s cannot be read back: %s", run_dir.name, error)
        return None


def reconcile(home: Home, registry: Registry) -> list[tuple[Run, Vitals]]:
    """Bring the registry up to date with the run directories; returns every live run."""
    live: dict[str, tuple[Run, Vitals]] = {}
    for stored in registry.live():
        run = load_run(home.run_dir(stored.run.run_id))
        if run is None or run.version < stored.run.version:
            run = stored.run
        elif run.version > stored.run.version:
            registry.put(run, stored.vitals)
        if run.live:
            live[run.run_id] = (run, stored.vitals)
    known = registry.ids()
    for run in _unknown_runs(home, known):
        registry.put(run, Vitals())
        if run.live:
            live[run.run_id] = (run, Vitals())
    return [live[run_id] for run_id in sorted(live)]


def _unknown_runs(home: Home, known: set[str]) -> Iterator[Run]:
    for folder in (home.runs, home.trash):
        for name in sorted(os.listdir(folder)):
            if is_run_id(name) and name not in known:
                run = load_run(folder / name)
                if run is not None:
                    yield run


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
