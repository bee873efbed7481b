"""What a new daemon makes of what the last one left."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.patience import PATIENCE_S
from support.trainer import Trainer, until

from mosaic.config.paths import Home
from mosaic.runs import eventlog
from mosaic.runs.directory import RunDirectory
from mosaic.runs.eventlog import LogLine
from mosaic.runs.ids import new_run_id
from mosaic.runs.supervised import process_keys
from mosaic.system.processes import boot_id, start_time
from mosaic.trainer.core.states import Run, State
from mosaic.trainer.core.stimuli import Adopted, LaunchUndone
from mosaic.trainer.launch import spec as launch
from mosaic.trainer.launch import supervisor
from mosaic.trainer.loop.recovery import (
    Evidence,
    gather,
    judge,
    marked_keys,
    reconcile,
)
from mosaic.trainer.storage.registry import Registry, Vitals

LAUNCHING = Run("r", slots=("cpu:0",))
WORKING = Run("r", state=State.EXEC, slots=("cpu:0",))


@pytest.mark.parametrize(
    ("run", "evidence", "expected"),
    [
        (LAUNCHING, Evidence(False, False, False, False), LaunchUndone()),
        (LAUNCHING, Evidence(False, False, True, False), None),
        (LAUNCHING, Evidence(True, False, False, True), None),
        (WORKING, Evidence(True, False, True, True), Adopted(3)),
        (WORKING, Evidence(True, True, False, False), None),
        (WORKING, Evidence(True, False, False, False), None),
        (Run("r"), Evidence(False, False, False, False), None),
    ],
)
def test_judgement(run: Run, evidence: Evidence, expected: object) -> None:
    """A launch that never began is undone, a living run is adopted, the rest is observed."""
    assert judge(run, evidence, epoch=3) == expected


def test_evidence_is_read_from_disk_and_process_table(tmp_path: Path) -> None:
    """A held lock is a supervisor at work; its record names the processes."""
    directory = RunDirectory(tmp_path)
    assert gather(directory, []) == Evidence(False, False, False, False)
    with open(directory.supervisor_lock, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert gather(directory, []).supervisor_starting
    assert not gather(directory, []).supervisor_starting
    identity = {"pid": os.getpid(), "start_time": start_time(os.getpid()), "boot_id": boot_id()}
    shim = {"supervisor_pid": 1, "supervisor_start_time": 0}
    directory.supervisor.write_text(json.dumps({**identity, **shim}))
    assert gather(directory, process_keys(directory)).alive
    directory.supervisor.write_text(json.dumps({**identity, **shim, "start_time": 1}))
    assert not gather(directory, process_keys(directory)).alive


def test_a_worker_is_known_by_its_marker_not_its_pid() -> None:
    """Without its record a worker is recognised only if it carries the run's marker."""
    run_id = new_run_id()
    marked = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], env={"MOSAIC_RUN_ID": run_id}
    )
    try:
        run = Run(run_id, state=State.EXEC, pid=marked.pid, supervisor_pid=os.getpid())
        until(lambda: marked_keys(run), "the marker can be seen")
        assert [key.pid for key in marked_keys(run)] == [marked.pid, os.getpid()]
        assert marked_keys(Run(new_run_id(), state=State.EXEC, pid=marked.pid)) == []
        assert marked_keys(Run(run_id, state=State.EXEC, pid=os.getpid())) == []
    finally:
        marked.kill()
        marked.wait()


def _home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.create()
    return home


def _on_disk(home: Home, *kinds: str) -> str:
    run_id = new_run_id()
    home.run_dir(run_id).mkdir()
    data = {
        "submitted": {"run_name": "from disk"},
        "settled": {"outcome": "failed", "reason": "x", "finished_at": 1.0},
        "slots_reserved": {"slots": ["cpu:0"], "epoch": 7, "boot_id": "b"},
    }
    lines = [
        LogLine(seq, kind, 1.0, 1.0, data.get(kind, {})) for seq, kind in enumerate(kinds, start=1)
    ]
    eventlog.append(home.run_dir(run_id), lines)
    return run_id


def test_a_registry_is_rebuilt_from_the_directories(tmp_path: Path) -> None:
    """Runs the registry does not know are read back, damaged ones too; epochs go on."""
    home = _home(tmp_path)
    ended = _on_disk(home, "submitted", "settled")
    live = _on_disk(home, "submitted", "slots_reserved")
    nonsense = home.runs / new_run_id()
    nonsense.mkdir()
    (home.runs / "not-a-run").mkdir()
    registry = Registry(home.registry)
    found = reconcile(home, registry)
    assert [run.run_id for run, _ in found.live] == [live]
    assert (found.epoch, found.newest_id) == (7, nonsense.name)
    assert registry.ids() == {ended, live, nonsense.name}
    assert registry.ids("damaged") == {nonsense.name}
    assert registry.next_epoch(after=found.epoch) == 8
    registry.close()


def test_the_longer_history_wins(tmp_path: Path) -> None:
    """A log that knows more than the registry counts; a log that lost its end does not."""
    home = _home(tmp_path)
    ahead = _on_disk(home, "submitted", "settled")
    behind = _on_disk(home, "submitted")
    registry = Registry(home.registry)
    registry.put(Run(ahead, version=1), Vitals())
    registry.put(Run(behind, state=State.TERM, version=5, outcome="completed"), Vitals())
    registry.flush()
    assert reconcile(home, registry).live == []
    rows = {run_id: registry.get(run_id) for run_id in (ahead, behind)}
    assert rows[ahead] is not None
    assert rows[ahead].run.outcome == "failed"
    assert rows[behind] is not None
    assert rows[behind].run.outcome == "completed"
    registry.close()


def test_a_move_to_the_trash_is_finished(tmp_path: Path) -> None:
    """A crash between the record of a deletion and the move is made good."""
    home = _home(tmp_path)
    run_id = _on_disk(home, "submitted", "settled", "deleted")
    registry = Registry(home.registry)
    reconcile(home, registry)
    assert (home.trash / run_id).is_dir()
    assert not home.run_dir(run_id).exists()
    registry.close()


def test_what_is_removed_is_gone_at_once(tmp_path: Path) -> None:
    """A run removed from the registry cannot be read any more, committed or not."""
    registry = Registry(tmp_path / "registry.sqlite3")
    run = Run(new_run_id(), idempotency_key="key")
    registry.put(run, Vitals())
    assert registry.find_by_key("key") == run.run_id
    registry.remove(run.run_id)
    assert registry.get(run.run_id) is None
    registry.flush()
    assert registry.get(run.run_id) is None
    assert registry.find_by_key("key") is None
    assert [gone for gone, _ in registry.changes(0)[1]] == [run.run_id]
    registry.close()


def _supervise(directory: RunDirectory, program: str) -> int:
    """Run a supervisor to its end; its exit status."""
    code = (
        "import json,sys; from mosaic.trainer.launch import supervisor as s;"
        "sys.exit(s.supervise(json.loads(sys.argv[1]), s.exec_worker))"
    )
    path = str(directory.path)
    spec = {"run_id": "r", "run_dir": path, "argv": [program], "env": {}, "cwd": path}
    command = [sys.executable, "-c", code, json.dumps({**spec, "boot_id": "b"})]
    return subprocess.run(command, timeout=PATIENCE_S).returncode


def test_a_launch_that_took_too_long_never_happens(tmp_path: Path) -> None:
    """After a launch was given up its supervisor refuses to begin, and never the other way."""
    directory = RunDirectory(tmp_path)
    assert launch.prevent_start(directory)
    assert _supervise(directory, "/bin/true") == supervisor.ALREADY_SUPERVISED
    assert not directory.supervisor.exists()
    directory.exit.unlink()
    with open(directory.supervisor_lock, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not launch.prevent_start(directory)
    directory.supervisor.write_text("{}")
    assert not launch.prevent_start(directory)


def test_an_adopted_worker_obeys(trainer: Trainer) -> None:
    """After a new daemon took over, a worker that can pause does, and goes on."""
    config = {"algo": "darts", "worker": "example", "total_timesteps": 100000}
    run_id = trainer.client.submit({**config, "extras": {"step_ms": 10}}).run_id
    pid = trainer.wait_for(run_id, "EXEC").pid
    trainer.restart()
    trainer.wait_for(run_id, "EXEC")
    trainer.client.pause(run_id)
    assert trainer.wait_for(run_id, "PAUSE").pid == pid
    trainer.restart()
    assert trainer.client.get(run_id).state == "PAUSE"
    trainer.client.resume(run_id)
    assert trainer.wait_for(run_id, "EXEC").pid == pid
    assert trainer.kinds(run_id).count("worker_registered") == 1
    trainer.client.cancel(run_id)
    assert trainer.ended(run_id).outcome == "cancelled"


def test_exec_failure_is_told(tmp_path: Path) -> None:
    """A program that cannot be executed leaves its name and the system's words in exit.json."""
    directory = RunDirectory(tmp_path / "run")
    directory.create()
    assert _supervise(directory, "/no/such/python") == 0
    end = json.loads(directory.exit.read_text())
    assert (end["code"], end["signal"]) == (127, None)
    assert end["error"] == "/no/such/python: No such file or directory"
