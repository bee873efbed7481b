"""A script and the worker that started it talk at safe points."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.patience import PATIENCE_S
from support.trainer import until

from cleanrl_worker.running import checkpoint_files
from cleanrl_worker.running.bridge import Bridge


class Worker:
    """The other end of a script's bridge."""

    def __init__(self, run_dir: Path, *flags: str, clogged: bool = False) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(60)
        if clogged:
            # Empty lines until the socket takes no more: what the script says has no room.
            with contextlib.suppress(BlockingIOError):
                while True:
                    theirs.send(b"\n", socket.MSG_DONTWAIT)
        command = [sys.executable, "-m", "cleanrl_worker.cleanrl.ppo", "--run-dir", str(run_dir)]
        self.process = subprocess.Popen(
            [*command, *flags],
            env={**os.environ, "CLEANRL_BRIDGE_FD": str(theirs.fileno())},
            pass_fds=[theirs.fileno()],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        theirs.close()
        self.socket = ours
        self.lines = ours.makefile("r")

    def command(self, name: str) -> None:
        self.socket.sendall(json.dumps({"command": name}).encode() + b"\n")

    def next(self, *events: str) -> dict[str, Any]:
        """The next event of one of these kinds."""
        for line in self.lines:
            event = json.loads(line)
            if event["event"] in events:
                return event
        raise AssertionError(f"the script ended without {events}: {self.process.stderr.read()}")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.lines.close()
        self.socket.close()


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(tmp_path / "run")
    yield worker
    worker.close()


def test_pause_resume_checkpoint_and_stop_are_obeyed(worker: Worker, tmp_path: Path) -> None:
    """The run waits for go, pauses with a checkpoint, goes on, and stops with one."""
    worker.command("go")
    first = worker.next("metrics")
    assert first["total"] == 500000
    assert {"sps", "episodic_return", "losses/value_loss"} <= first["values"].keys()

    worker.command("pause")
    saved = worker.next("checkpoint_saved")
    assert saved["kind"] == "policy"
    paused = worker.next("paused")
    assert paused["step"] == saved["step"]
    worker.command("resume")
    assert worker.next("resumed")["step"] == paused["step"]
    assert worker.next("metrics")["step"] > paused["step"]

    worker.command("checkpoint")
    full = worker.next("checkpoint_saved")
    while full["kind"] != "full":
        full = worker.next("checkpoint_saved")
    assert (tmp_path / "run" / full["path"]).is_file()
    assert worker.next("checkpointed")["step"] == full["step"]

    worker.command("stop")
    assert worker.process.wait(PATIENCE_S) == 143
    path, passed_over = checkpoint_files.find(tmp_path / "run")
    assert not passed_over
    assert checkpoint_files.step_of(path) >= full["step"]


def test_nothing_is_stepped_before_go(worker: Worker, tmp_path: Path) -> None:
    """A worker that is told to stop before it may go leaves no trace of training."""
    worker.command("stop")
    assert worker.process.wait(PATIENCE_S) == 143
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_sigterm_saves_before_leaving(worker: Worker, tmp_path: Path) -> None:
    """A cancelled run keeps what it learned."""
    worker.command("go")
    reached = worker.next("metrics")["step"]
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(PATIENCE_S) == 143
    assert checkpoint_files.step_of(checkpoint_files.find(tmp_path / "run")[0]) >= reached


def test_a_worker_that_is_gone_ends_the_run(worker: Worker, tmp_path: Path) -> None:
    """No orphan trains on when the process that owns it has died."""
    worker.command("go")
    worker.next("metrics")
    worker.lines.close()
    worker.socket.close()
    assert worker.process.wait(PATIENCE_S) == 143
    assert checkpoint_files.find(tmp_path / "run")


def test_a_refusal_reaches_the_worker(tmp_path: Path) -> None:
    """The worker learns in one sentence why a run did not start."""
    worker = Worker(tmp_path / "run", "--env-id", "Pendulum-v1")
    assert "discrete actions" in worker.next("run_failed")["reason"]
    assert worker.process.wait(PATIENCE_S) == 2
    worker.close()


def test_a_worker_that_does_not_read_does_not_stop_training(tmp_path: Path) -> None:
    """A stuck worker costs the run nothing; later it hears every answer and the newest numbers."""
    worker = Worker(tmp_path / "run", "--total-timesteps", "4096", clogged=True)
    worker.command("go")
    worker.command("checkpoint")
    final = tmp_path / "run" / "checkpoints" / f"step-4096{checkpoint_files.STATE_SUFFIX}"
    until(final.exists, "the whole schedule to be trained while nothing is read")
    said = [json.loads(line) for line in worker.lines if line.strip()]
    assert worker.process.wait(PATIENCE_S) == 0
    saved = {event["step"] for event in said if event["event"] == "checkpoint_saved"}
    assert len(saved) == 2
    assert max(saved) == 4096
    assert [event for event in said if event["event"] == "metrics"][-1]["step"] == 4096
    worker.close()


def test_what_a_stuck_worker_missed_follows_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much is said meanwhile: no answer is lost or torn, and old numbers are left out."""
    ours, theirs = socket.socketpair()
    monkeypatch.setenv("CLEANRL_BRIDGE_FD", str(theirs.detach()))
    bridge = Bridge()
    for number in range(2000):
        bridge.send("metrics", step=number, values={"padding": "x" * 200})
        bridge.send("note", number=number, text="y" * 200)
    sending = threading.Thread(target=bridge.drain)
    sending.start()
    said = []
    with ours, ours.makefile("r") as lines:
        for line in lines:
            said.append(json.loads(line))
            if said[-1].get("step") == 1999:
                break
        sending.join(PATIENCE_S)
    assert [event["number"] for event in said if event["event"] == "note"] == list(range(2000))
    metrics = [event["step"] for event in said if event["event"] == "metrics"]
    assert metrics == sorted(metrics)
    assert len(metrics) < 2000
