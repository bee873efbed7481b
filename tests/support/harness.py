"""Runs the worker's command line as users do, in processes that have torch loaded already.

A fresh interpreter spends two seconds on imports; these are forked from one that has them, which
is also how the daemon's warm start runs the worker.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from support import faults_inside
from support.patience import PATIENCE_S

_WARM = multiprocessing.get_context("forkserver")
_WARM.set_forkserver_preload(
    ["torch", "gymnasium", "cleanrl_worker.kit.script", "cleanrl_worker.runtime"]
)


@dataclass
class Worker:
    """One run of the worker: its process, its directory and everything it said."""

    process: Any
    run_dir: Path
    output: Path
    errors: Path
    _seen: list[dict[str, Any]] = field(default_factory=list)

    @property
    def pid(self) -> int:
        """The worker process."""
        return self.process.pid

    def events(self, kind: str = "") -> list[dict[str, Any]]:
        """Its lifecycle lines so far."""
        found = [
            json.loads(line)
            for line in self.output.read_text().splitlines()
            if line.startswith('{"event":') and line.endswith("}")
        ]
        return [event for event in found if not kind or event["event"] == kind]

    def wait_for(self, kind: str, count: int = 1) -> dict[str, Any]:
        """Wait for the `count`-th event of a kind."""
        deadline = time.monotonic() + PATIENCE_S
        while len(found := self.events(kind)) < count:
            assert self.process.is_alive(), f"ended without {kind}:\n{self.said()}"
            assert time.monotonic() < deadline, f"no {kind}:\n{self.said()}"
            time.sleep(0.02)
        return found[count - 1]

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Signal the whole group, as the daemon does."""
        os.killpg(self.pid, number)

    def wait(self) -> int:
        """Its exit status."""
        self.process.join(PATIENCE_S)
        assert self.process.exitcode is not None, f"still running:\n{self.said()}"
        return self.process.exitcode

    def said(self) -> str:
        """Everything it printed."""
        return self.output.read_text() + self.errors.read_text()

    def training_pid(self) -> int:
        """The training process below it."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return int(children[0])


def start(run_dir: Path, *arguments: str, fault: str = "", **environment: str) -> Worker:
    """Start the worker in a group of its own, with a fault of `faults_inside` if one is named."""
    run_dir.parent.mkdir(parents=True, exist_ok=True)
    output, errors = run_dir.with_suffix(".out"), run_dir.with_suffix(".err")
    for path in (output, errors):
        path.write_text("")
    words = ["--run-dir", str(run_dir), *arguments]
    process = _WARM.Process(
        target=_as_worker, args=(words, str(output), str(errors), environment, fault)
    )
    process.start()
    return Worker(process, run_dir, output, errors)


def run(run_dir: Path, *arguments: str, **environment: str) -> Worker:
    """Run the worker to its end and expect that it did what it was asked."""
    worker = start(run_dir, *arguments, **environment)
    assert worker.wait() == 0, worker.said()
    return worker


def refuse(run_dir: Path, *arguments: str, **environment: str) -> str:
    """Run the worker, expect a refusal, and return what it said."""
    worker = start(run_dir, *arguments, **environment)
    assert worker.wait() == 2, worker.said()
    return worker.said()


def newest_state(run_dir: Path) -> dict[str, Any]:
    """The newest full-state checkpoint of a run."""
    from cleanrl_worker.running import checkpoint_files, checkpoints

    return checkpoints.load(checkpoint_files.find(run_dir)[0])


def equal(left: Any, right: Any) -> bool:
    """Whether two nested values agree to the last bit."""
    if isinstance(left, torch.Tensor):
        return isinstance(right, torch.Tensor) and torch.equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(equal, left, right))
    return left == right


def _as_worker(
    words: list[str], output: str, errors: str, environment: dict[str, str], fault: str
) -> None:
    os.setsid()
    for path, descriptor in ((output, 1), (errors, 2)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, descriptor)
        os.close(file)
    os.environ.update(environment)
    from cleanrl_worker.cli import main

    if fault:
        name, _, value = fault.partition(":")
        getattr(faults_inside, name)(int(value))
    try:
        sys.exit(main(words))
    except SystemExit:
        raise
    except BaseException:
        traceback.print_exc()
        sys.exit(70)
