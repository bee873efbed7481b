"""Running the real worker and a real XMPP server from tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spade_bdi_rl_worker import checkpoints
from support.patience import PATIENCE_S


def worker_command(*arguments: object) -> list[str]:
    """The worker's command line."""
    return [sys.executable, "-m", "spade_bdi_rl_worker.cli", *map(str, arguments)]


class Finished:
    """A worker run that has ended."""

    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        self.code = code
        self.stderr = stderr
        self.stdout = stdout
        self.events = [
            json.loads(line) for line in stdout.splitlines() if line.startswith('{"event"')
        ]

    @property
    def last(self) -> dict[str, Any]:
        event: dict[str, Any] = self.events[-1]
        return event

    def notes(self) -> str:
        return " | ".join(e.get("text", "") for e in self.events if e["event"] == "note")


def run_worker(*arguments: object, timeout: float = PATIENCE_S, **env: str) -> Finished:
    """Run the worker to its end."""
    done = subprocess.run(
        worker_command(*arguments),
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **env},
        check=False,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


class LiveWorker:
    """A worker that runs while the test does something to it."""

    def __init__(self, *arguments: object) -> None:
        self.process = subprocess.Popen(
            worker_command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.lines: list[str] = []

    def wait_for(self, event: str) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            document: dict[str, Any] = json.loads(line)
            if document["event"] == event:
                return document
        raise AssertionError(f"no {event} before the end: {self.lines}")

    def finish(self, timeout: float = PATIENCE_S) -> Finished:
        out, err = self.process.communicate(timeout=timeout)
        return Finished(self.process.returncode, "".join(self.lines) + out, err)

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)


class ExternalServer:
    """A pyjabber of the test's own, which the worker only knows by address."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = 0
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "spade_bdi_rl_worker.xmpp_server",
                str(self._folder), str(self.port),
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "TMPDIR": str(self._folder)},
        )  # fmt: skip
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.communicate()
        self.process = None

    def login(self, name: str, password: str) -> list[object]:
        return [
            "--jid", f"{name}@localhost", "--password", password,
            "--xmpp-host", "127.0.0.1", "--xmpp-port", self.port,
        ]  # fmt: skip


def newest_checkpoint(run_dir: Path) -> dict[str, Any]:
    """The content of a run's newest full checkpoint."""
    return checkpoints.read(checkpoints.newest(run_dir / checkpoints.FOLDER), "full")


def wait_until(condition: Callable[[], bool], timeout: float = PATIENCE_S) -> None:
    """Poll until the condition holds; the test fails when it never does."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "the condition never became true"
        time.sleep(0.02)
