"""A script and the worker that started it talk at safe points."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cleanrl_worker.kit import checkpoint_files


class Worker:
    """The other end of a script's bridge."""

    def __init__(self, run_dir: Path, *flags: str) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(60)
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
    assert worker.process.wait(60) == 143
    path, passed_over = checkpoint_files.find(tmp_path / "run")
    assert not passed_over
    assert checkpoint_files.step_of(path) >= full["step"]


def test_nothing_is_stepped_before_go(worker: Worker, tmp_path: Path) -> None:
    """A worker that is told to stop before it may go leaves no trace of training."""
    worker.command("stop")
    assert worker.process.wait(60) == 143
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_sigterm_saves_before_leaving(worker: Worker, tmp_path: Path) -> None:
    """A cancelled run keeps what it learned."""
    worker.command("go")
    reached = worker.next("metrics")["step"]
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(60) == 143
    assert checkpoint_files.step_of(checkpoint_files.find(tmp_path / "run")[0]) >= reached


def test_a_worker_that_is_gone_ends_the_run(worker: Worker, tmp_path: Path) -> None:
    """No orphan trains on when the process that owns it has died."""
    worker.command("go")
    worker.next("metrics")
    worker.lines.close()
    worker.socket.close()
    assert worker.process.wait(60) == 143
    assert checkpoint_files.find(tmp_path / "run")


def test_a_refusal_reaches_the_worker(tmp_path: Path) -> None:
    """The worker learns in one sentence why a run did not start."""
    worker = Worker(tmp_path / "run", "--env-id", "Pendulum-v1")
    assert "discrete actions" in worker.next("run_failed")["reason"]
    assert worker.process.wait(60) == 2
    worker.close()
