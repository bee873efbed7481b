"""Rows P1 to P18 of the fault matrix: real kills of real processes."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.patience import PATIENCE_S, TIME_TO_SAVE
from support.trainer import Trainer, until

from mosaic.system.processes import (
    group_members,
    has_marker,
    marked_processes,
    parent_of,
    process_state,
)

MakeTrainer = Callable[..., Trainer]


def _one_worker(trainer: Trainer, run_id: str) -> list[int]:
    """Every live process with the run's marker; its supervisor does not carry it."""
    supervisor = trainer.supervisor(run_id)["supervisor_pid"]
    return marked_processes(run_id, besides=frozenset({supervisor}))


def test_p01_worker_killed(trainer: Trainer) -> None:
    """A worker killed with -9 fails its run, frees its slot and keeps its last checkpoint."""
    run = trainer.stepping()
    os.kill(run.pid, signal.SIGKILL)
    end = trainer.ended(run.run_id)
    assert (end.outcome, end.exit_code) == ("failed", -9)
    assert "signal 9" in end.reason
    assert [item.path for item in end.checkpoints] == ["checkpoints/last.json"]
    assert group_members(run.pid) == []
    assert trainer.free_slots() == 2


@pytest.mark.parametrize("downtime_s", [0.0, 2.0])
def test_p02_daemon_killed_mid_run(trainer: Trainer, downtime_s: float) -> None:
    """A run goes on without its daemon; the next one adopts the same process, and only that."""
    run = trainer.stepping()
    trainer.kill()
    before = trainer.steps(run.run_id)
    time.sleep(downtime_s)
    until(lambda: trainer.steps(run.run_id) > before, "the run goes on without a daemon")
    trainer.start()
    adopted = trainer.wait_for(run.run_id, "EXEC")
    assert adopted.pid == run.pid
    assert _one_worker(trainer, run.run_id) == [run.pid]
    assert trainer.kinds(run.run_id).count("spawned") == 1
    assert trainer.kinds(run.run_id).count("adopted") == 1
    until(
        lambda: trainer.client.get(run.run_id).progress.step > before,
        "the steps of the downtime are read from the log",
    )
    assert trainer.client.get(run.run_id).slots == run.slots
    trainer.client.cancel(run.run_id)
    assert trainer.ended(run.run_id).outcome == "cancelled"


def test_p02_daemon_killed_before_the_handshake(make_trainer: MakeTrainer) -> None:
    """A worker that finds no daemon begins without one; the next daemon takes it in, late as it is.

    However long the daemon was away, that is not held against the worker.
    """
    trainer = make_trainer(handshake_timeout_s="2").start()
    run_id = trainer.submit("starts_alone")
    pid = trainer.wait_for(run_id, "HSHK").pid
    began = time.monotonic()
    trainer.kill()
    (trainer.directory(run_id).path / "begin").touch()
    until(lambda: trainer.steps(run_id) > 2, "it works without a daemon")
    until(lambda: time.monotonic() - began > 2.0, "the time for the handshake is over")
    trainer.start()
    assert trainer.wait_for(run_id, "EXEC").pid == pid
    trainer.client.cancel(run_id)
    assert trainer.ended(run_id).exit_code == 143


def test_p03_worker_finishes_while_daemon_is_down(trainer: Trainer) -> None:
    """A run that ends while nobody watches is settled from its exit record."""
    run_id = trainer.submit("short", extras={"seconds": 1.0})
    trainer.wait_for(run_id, "EXEC")
    trainer.kill()
    until(trainer.directory(run_id).exit.exists, "the supervisor writes the end down")
    record = json.loads(trainer.directory(run_id).exit.read_text())
    restarted_at = time.time()
    end = trainer.start().ended(run_id)
    assert (end.outcome, end.exit_code) == ("completed", 0)
    # When it ended, not when that was found out.
    assert end.finished_at == pytest.approx(record["finished_at"], rel=0, abs=0.001)
    assert end.finished_at < restarted_at
    assert trainer.kinds(run_id)[-3:] == ["completion_reported", "process_ended", "settled"]


def test_p04_daemon_and_worker_killed(trainer: Trainer) -> None:
    """When daemon, supervisor and worker all die, the run is lost, says so, and is not retried."""
    run = trainer.stepping()
    trainer.kill()
    os.kill(trainer.supervisor(run.run_id)["supervisor_pid"], signal.SIGKILL)
    os.kill(run.pid, signal.SIGKILL)
    end = trainer.start().ended(run.run_id)
    assert end.outcome == "lost"
    assert "faulted" in trainer.kinds(run.run_id)
    assert trainer.client.list_runs()[2] == 1
    assert trainer.free_slots() == 2


def test_p04_lost_run_is_retried_when_the_policy_says_so(make_trainer: MakeTrainer) -> None:
    """With `retry_lost` a lost run is submitted again, once, linked to the first."""
    trainer = make_trainer(retry_lost="true").start()
    run = trainer.stepping()
    trainer.kill()
    os.kill(trainer.supervisor(run.run_id)["supervisor_pid"], signal.SIGKILL)
    os.kill(run.pid, signal.SIGKILL)
    trainer.start()
    until(lambda: trainer.client.list_runs()[2] == 2, "the run is submitted again")
    retried = trainer.client.get("last")
    assert retried.parent_run_id == run.run_id
    trainer.wait_for(retried.run_id, "EXEC")


def test_p04_supervisor_killed_alone(trainer: Trainer) -> None:
    """A worker whose supervisor was killed goes on, can be cancelled, and leaves nothing."""
    run = trainer.stepping("family")
    os.kill(trainer.supervisor(run.run_id)["supervisor_pid"], signal.SIGKILL)
    before = trainer.steps(run.run_id)
    until(lambda: trainer.steps(run.run_id) > before + 5, "the worker goes on")
    trainer.client.cancel(run.run_id, grace_s=0.2)
    assert trainer.ended(run.run_id).outcome == "cancelled"
    assert marked_processes(run.run_id) == []


def test_f26_a_child_without_marker_is_found_by_its_output(trainer: Trainer) -> None:
    """With its supervisor killed, a child that hid itself ends with its run all the same."""
    run = trainer.stepping("escapes")
    hidden = int((trainer.directory(run.run_id).path / "hidden.txt").read_text())
    assert not has_marker(hidden, run.run_id)
    os.kill(trainer.supervisor(run.run_id)["supervisor_pid"], signal.SIGKILL)
    trainer.client.cancel(run.run_id)
    assert trainer.ended(run.run_id).outcome == "cancelled"
    assert process_state(hidden) in ("", "Z")


@pytest.mark.parametrize("place", ["after_append", "before_spawn", "after_spawn"])
def test_p05_daemon_killed_around_the_spawn(make_trainer: MakeTrainer, place: str) -> None:
    """Killed between reserving, spawning and recording, there is still one worker, one slot."""
    trainer = make_trainer().start(MOSAIC_FAULT=f"{place}:kill")
    run_id = trainer.submit("steady")
    trainer.wait_for_death()
    trainer.start()
    run = trainer.wait_for(run_id, "EXEC")
    until(lambda: trainer.steps(run_id) > 2, "it makes steps")
    assert _one_worker(trainer, run_id) == [run.pid]
    assert len(run.slots) == 1
    assert trainer.free_slots() == 1
    assert trainer.kinds(run_id).count("spawned") == 1


def test_p06_reboot_and_reused_pid(
    make_trainer: MakeTrainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a reboot a run is lost, and whoever has its pid now is left alone."""
    boot = tmp_path / "boot_id"
    boot.write_text("first-boot\n")
    monkeypatch.setenv("MOSAIC_BOOT_ID_FILE", str(boot))
    trainer = make_trainer().start(MOSAIC_BOOT_ID_FILE=str(boot))
    run = trainer.stepping()
    trainer.kill()
    supervisor = trainer.supervisor(run.run_id)
    os.kill(supervisor["supervisor_pid"], signal.SIGKILL)
    os.kill(run.pid, signal.SIGKILL)
    boot.write_text("second-boot\n")
    stranger = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        supervisor["pid"] = supervisor["supervisor_pid"] = stranger.pid
        trainer.directory(run.run_id).supervisor.write_text(json.dumps(supervisor))
        end = trainer.start(MOSAIC_BOOT_ID_FILE=str(boot)).ended(run.run_id)
        assert end.outcome == "lost"
        assert "restarted" in end.reason
        assert stranger.poll() is None
        assert process_state(stranger.pid) == "S"
    finally:
        stranger.kill()
        stranger.wait()


def test_p06_same_pid_of_another_program(trainer: Trainer) -> None:
    """A pid that another program of this boot has now is not the worker."""
    run = trainer.stepping()
    trainer.kill()
    supervisor = trainer.supervisor(run.run_id)
    os.kill(supervisor["supervisor_pid"], signal.SIGKILL)
    os.kill(run.pid, signal.SIGKILL)
    stranger = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        supervisor["pid"] = stranger.pid
        trainer.directory(run.run_id).supervisor.write_text(json.dumps(supervisor))
        assert trainer.start().ended(run.run_id).outcome == "lost"
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_p07_grandchildren_that_will_not_go(trainer: Trainer) -> None:
    """Cancelling ends every process of a run, whatever group, session or parent it chose."""
    run = trainer.stepping("family")
    family = json.loads((trainer.directory(run.run_id).path / "family.json").read_text())
    assert all(process_state(pid) for pid in family)
    trainer.client.cancel(run.run_id, grace_s=0.3)
    end = trainer.ended(run.run_id)
    assert end.outcome == "cancelled"
    assert not any(process_state(pid) not in ("", "Z") for pid in family)
    assert marked_processes(run.run_id) == []
    assert trainer.free_slots() == 2


def test_p08_no_zombies(trainer: Trainer) -> None:
    """Workers that never wait for their children leave no zombie, nor do runs that ended."""
    others = _zombies_of(trainer.pid, os.getpid())
    runs = [trainer.submit("unreaped") for _ in range(6)]
    for run_id in runs:
        assert trainer.ended(run_id).outcome == "completed"
    # What other tests of this process have not waited for yet is no business of these runs.
    until(lambda: _zombies_of(trainer.pid, os.getpid()) <= others, "no zombie is left")


def _zombies_of(*parents: int) -> set[int]:
    pids = map(int, filter(str.isdigit, os.listdir("/proc")))
    return {pid for pid in pids if process_state(pid) == "Z" and parent_of(pid) in parents}


def test_p09_hanging_worker_is_stalled_not_failed(make_trainer: MakeTrainer) -> None:
    """A worker that says nothing is shown as stalled, keeps its slot, and recovers."""
    trainer = make_trainer(stall_after_s="2").start()
    run = trainer.stepping()
    os.killpg(run.pid, signal.SIGSTOP)
    until(lambda: trainer.client.get(run.run_id).stalled, "it is shown as stalled")
    hanging = trainer.client.get(run.run_id)
    assert (hanging.state, hanging.slots) == ("EXEC", run.slots)
    os.killpg(run.pid, signal.SIGCONT)
    until(lambda: not trainer.client.get(run.run_id).stalled, "it recovers")
    kinds = trainer.kinds(run.run_id)
    assert kinds.index("stalled") < kinds.index("recovered")


def test_p09_silence_after_the_handshake_is_shown(make_trainer: MakeTrainer) -> None:
    """A worker that hangs between handshake and start is shown as stalled too."""
    trainer = make_trainer(stall_after_s="1").start()
    run_id = trainer.submit("hangs_after_handshake")
    until(lambda: trainer.client.get(run_id).stalled, "it is shown as stalled")
    assert trainer.client.get(run_id).state == "RDY"


def test_p10_exit_zero_without_completion(trainer: Trainer) -> None:
    """Exit code 0 alone is no success."""
    end = trainer.ended(trainer.submit("silent_exit"))
    assert (end.outcome, end.exit_code) == ("failed", 0)
    assert "no completion record" in end.reason


def test_p11_completion_then_crash(trainer: Trainer) -> None:
    """The exit code outranks the worker's word, and both are on record."""
    run_id = trainer.submit("crash_at_the_end")
    end = trainer.ended(run_id)
    assert (end.outcome, end.exit_code) == ("failed", 9)
    assert "after run_completed" in end.reason
    assert {"completion_reported", "process_ended"} <= set(trainer.kinds(run_id))


@pytest.mark.parametrize(
    ("said", "outcome", "reason"),
    [("", "completed", "did not exit"), ("out of luck", "failed", "out of luck")],
)
def test_p11_a_worker_that_has_ended_does_not_keep_its_slot(
    make_trainer: MakeTrainer, said: str, outcome: str, reason: str
) -> None:
    """A process that hangs after its last line is ended, and the run ends as what it said."""
    trainer = make_trainer(grace_s="0.5", cpu_slots="1").start()
    run_id = trainer.submit("stays_after_the_end", extras={"failure": said})
    waiting = trainer.submit("short")
    end = trainer.ended(run_id)
    assert end.outcome == outcome
    assert reason in end.reason
    assert marked_processes(run_id) == []
    assert trainer.ended(waiting).outcome == "completed"


def test_p12_cancel_in_every_state(make_trainer: MakeTrainer) -> None:
    """Cancelling works in every state, twice as well as once, and frees the slot once."""
    trainer = make_trainer(cpu_slots="1").start()
    running = trainer.stepping().run_id
    queued = trainer.submit("steady")
    until(lambda: trainer.client.get(queued).wait_reason, "it says why it waits")
    assert trainer.client.get(running).run_name in trainer.client.get(queued).wait_reason
    assert trainer.client.cancel(queued).state == "TERM"
    assert trainer.client.cancel(queued).outcome == "cancelled"
    trainer.client.pause(running)
    assert trainer.wait_for(running, "PAUSE").slots == ("cpu:0",)
    shaking = trainer.submit("mute")
    trainer.client.cancel(running)
    trainer.client.cancel(running)
    assert trainer.ended(running).outcome == "cancelled"
    trainer.wait_for(shaking, "HSHK")
    trainer.client.cancel(shaking)
    assert trainer.ended(shaking).outcome == "cancelled"
    ready = trainer.submit("hangs_after_handshake")
    trainer.wait_for(ready, "RDY")
    trainer.client.cancel(ready)
    assert trainer.ended(ready).outcome == "cancelled"
    for run_id in (queued, running, shaking, ready):
        assert trainer.kinds(run_id).count("settled") == 1
        assert trainer.client.cancel(run_id).outcome == "cancelled"
    assert trainer.free_slots() == 1


def test_p12_cancel_races_with_the_natural_end(trainer: Trainer) -> None:
    """A cancel that meets the natural end gives one outcome and one free slot."""
    runs = [trainer.submit("short", extras={"seconds": 0.1 * number}) for number in range(6)]
    for run_id in runs:
        until(
            lambda run_id=run_id: trainer.client.get(run_id).state in ("EXEC", "TERM"),
            "it has begun",
        )
        trainer.client.cancel(run_id)
    for run_id in runs:
        assert trainer.ended(run_id).outcome in ("completed", "cancelled")
        assert trainer.kinds(run_id).count("settled") == 1
    assert trainer.free_slots() == 2


def test_p13_grace_for_a_long_save(make_trainer: MakeTrainer) -> None:
    """A worker busy saving gets its grace period, and what it saved is listed."""
    trainer = make_trainer(grace_s=TIME_TO_SAVE).start()
    run = trainer.stepping("slow_save", extras={"seconds": 3.0})
    trainer.client.cancel(run.run_id)
    end = trainer.ended(run.run_id)
    assert (end.outcome, end.exit_code) == ("cancelled", 143)
    assert [item.path for item in end.checkpoints] == ["checkpoints/final.json"]
    saved = trainer.directory(run.run_id).path / "checkpoints" / "final.json"
    assert json.loads(saved.read_text()) == {"weights": [1, 2, 3]}


def test_p14_wall_clock_limit(trainer: Trainer) -> None:
    """A run past its limit is asked, then killed; what it had saved stays."""
    run = trainer.stepping("deaf", limits={"max_wallclock_minutes": 0.03})
    end = trainer.ended(run.run_id)
    assert (end.outcome, end.exit_code) == ("time_limit", -9)
    assert "limit of 0.03 min" in end.reason
    assert trainer.steps(run.run_id) > 2


def test_p15_out_of_memory(trainer: Trainer) -> None:
    """A run that asked for too much memory says so."""
    end = trainer.ended(trainer.submit("hungry"))
    assert end.outcome == "failed"
    assert "out of memory" in end.reason


def test_p17_missing_module(trainer: Trainer) -> None:
    """A worker whose module is missing fails before it gets a slot, with command and fix."""
    run_id = trainer.submit("steady", module="no_such_worker_module")
    end = trainer.ended(run_id)
    assert end.outcome == "failed"
    assert "-m no_such_worker_module" in end.reason
    assert "run: make setup" in end.reason
    assert trainer.kinds(run_id) == ["submitted", "settled"]


def test_p17_module_that_cannot_be_imported(trainer: Trainer) -> None:
    """A worker that dies at its first import fails with its exit code, and its words are kept."""
    end = trainer.ended(trainer.submit("steady", module="mosaic.runs"))
    assert (end.outcome, end.exit_code) == ("failed", 1)
    stderr = trainer.directory(end.run_id).stderr.read_text()
    assert "cannot be directly executed" in stderr


def test_p18_two_daemons_on_one_home(trainer: Trainer) -> None:
    """A second daemon goes away with exit code 3 and names the first."""
    second = trainer.spawn()
    assert second.wait(timeout=PATIENCE_S) == 3
    words = trainer.output()
    assert f"pid {trainer.pid} on {socket.gethostname()}" in words
    assert "mosaic down" in words
    assert trainer.client.health().pid == trainer.pid


def test_p18_stale_lock_and_endpoint(trainer: Trainer) -> None:
    """What a killed daemon leaves behind does not keep the next one out."""
    trainer.kill()
    assert trainer.home.endpoint.exists()
    assert trainer.home.lock.exists()
    trainer.start()
    assert trainer.client.health().epoch == 2


def test_warm_start_is_supervised_like_any_other(make_trainer: MakeTrainer) -> None:
    """A forked worker leads its own group, carries its marker, and outlives the daemon."""
    trainer = make_trainer(warm_start="true").start()
    run = trainer.stepping()
    run_id, pid = run.run_id, run.pid
    assert trainer.supervisor(run_id)["warm"]
    assert os.getpgid(pid) == pid
    assert has_marker(pid, run_id)
    assert f"--config {trainer.home.configs}" in _command_line(pid)
    trainer.kill()
    before = trainer.steps(run_id)
    until(lambda: trainer.steps(run_id) > before + 5, "it goes on without daemon and zygote")
    trainer.start()
    assert trainer.wait_for(run_id, "EXEC").pid == pid
    trainer.client.cancel(run_id)
    end = trainer.ended(run_id)
    assert (end.outcome, end.exit_code) == ("cancelled", 143)
    assert marked_processes(run_id) == []


def test_warm_start_family_is_ended_too(make_trainer: MakeTrainer) -> None:
    """Processes that a forked worker started are found by their marker as well."""
    trainer = make_trainer(warm_start="true").start()
    run = trainer.stepping("family")
    family = json.loads((trainer.directory(run.run_id).path / "family.json").read_text())
    trainer.client.cancel(run.run_id, grace_s=0.2)
    trainer.ended(run.run_id)
    assert not any(process_state(pid) not in ("", "Z") for pid in family)


def _command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def test_pause_by_signal_then_cancel(trainer: Trainer) -> None:
    """A worker that cannot pause by itself is stopped; it resumes, and it can be cancelled."""
    run = trainer.stepping()
    run_id = run.run_id
    trainer.client.pause(run_id)
    until(lambda: process_state(run.pid) == "T", "its process stands still")
    standing = trainer.steps(run_id)
    time.sleep(0.3)
    assert trainer.steps(run_id) == standing
    trainer.client.resume(run_id)
    until(lambda: trainer.steps(run_id) > standing, "it goes on")
    trainer.client.pause(run_id)
    trainer.client.cancel(run_id)
    end = trainer.ended(run_id)
    assert (end.outcome, end.exit_code) == ("cancelled", 143)


def test_pause_at_a_safe_point_with_release(make_trainer: MakeTrainer) -> None:
    """A released pause lets another run have the slot; resuming waits for it in the queue."""
    trainer = make_trainer(cpu_slots="1").start()
    config = {"algo": "darts", "worker": "example", "total_timesteps": 100000}
    first = trainer.client.submit({**config, "extras": {"step_ms": 10}}).run_id
    trainer.wait_for(first, "EXEC")
    trainer.client.pause(first, release=True)
    assert trainer.wait_for(first, "PAUSE").slots == ()
    second = trainer.stepping().run_id
    trainer.client.resume(first)
    until(lambda: trainer.client.get(first).wait_reason, "it waits for a slot")
    assert trainer.client.get(first).state == "PAUSE"
    trainer.client.cancel(second)
    trainer.ended(second)
    assert trainer.wait_for(first, "EXEC").slots == ("cpu:0",)


def test_daemon_told_to_stop_its_runs(trainer: Trainer) -> None:
    """`stop` ends the workers as interrupted before the daemon goes."""
    run = trainer.stepping()
    trainer.client.shutdown("stop")
    assert trainer.wait_for_death() == 0
    assert marked_processes(run.run_id) == []
    assert trainer.start().client.get(run.run_id).outcome == "interrupted"


def test_daemon_told_to_leave_its_runs(trainer: Trainer) -> None:
    """SIGTERM to the daemon leaves the workers alone."""
    run = trainer.stepping()
    os.kill(trainer.pid, signal.SIGTERM)
    assert trainer.wait_for_death() == 0
    before = trainer.steps(run.run_id)
    until(lambda: trainer.steps(run.run_id) > before, "the worker goes on")
    assert trainer.start().wait_for(run.run_id, "EXEC").pid == run.pid
