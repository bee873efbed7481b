"""F4 of the reliability review, for workers: nothing of a worker's package runs in the daemon."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from support.trainer import Trainer, trainers, until

from mosaic.errors import InvalidConfigError
from mosaic.system.processes import process_state
from mosaic.workers.listing import discover_fenced

_PACKAGE = """
import os
import sys
import time

from mosaic.workers.capabilities import WorkerCapabilities

def _worker(name):
    return WorkerCapabilities(name, "rogue", validator=f"unruly:check_{name}")

def hanging():
    return _worker("hanging")

def eating():
    return _worker("eating")

def leaving():
    return _worker("leaving")

def babbling():
    return _worker("babbling")

def vanishing():
    os._exit(0)

def senseless():
    return 7

def vague():
    return WorkerCapabilities("vague", "rogue", estimated_memory_mb="a lot")

def check_hanging(config):
    with open(os.environ["UNRULY_PID"], "w") as file:
        file.write(str(os.getpid()))
    time.sleep(3600)

def check_eating(config):
    return [bytes(2**20) for _ in range(2**20)]

def check_leaving(config):
    os._exit(3)

def check_babbling(config):
    print("what I always wanted to say", flush=True)
    return {config.worker.algo: b"and no list at all"}
"""
_WORKERS = ("hanging", "vanishing", "senseless")


def _install(folder: Path, workers: tuple[str, ...]) -> None:
    package = folder / "unruly-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: unruly\nVersion: 1.0\n")
    lines = [f"{name} = unruly:{name}\n" for name in workers]
    (package / "entry_points.txt").write_text("[mosaic.workers]\n" + "".join(lines))
    (folder / "unruly.py").write_text(_PACKAGE)


def _config(worker: str) -> dict[str, Any]:
    fields = {"algo": "x"}
    return {"artifacts": {}, "metadata": {"worker": {"type": worker, "config": fields}}}


_REASONS = {"eating": "MemoryError", "leaving": "exit code 3", "babbling": "instead of a list"}


def test_f04_a_check_that_misbehaves_is_refused_in_words(tmp_path: Path, python_path: str) -> None:
    """A check may eat memory, end its process or answer nonsense: only its own runs are refused."""
    _install(tmp_path, (*_REASONS, "vague"))
    with trainers(tmp_path, f"{tmp_path}{os.pathsep}{python_path}") as make:
        trainer = make().start()
        for worker, says in [*_REASONS.items(), *_REASONS.items()]:
            with pytest.raises(InvalidConfigError, match=says) as refused:
                trainer.client.submit(_config(worker))
            assert f"cannot check its configuration: {worker}" in str(refused.value)
        (vague,) = (item for item in trainer.client.workers() if item.type == "vague")
        assert "estimated_memory_mb of its descriptor" in vague.problem
        assert trainer.client.health().pid == trainer.pid
        assert trainer.ended(trainer.submit("short")).completed


def test_f04_a_check_that_hangs_holds_only_its_own_worker(tmp_path: Path, python_path: str) -> None:
    """Twelve submissions wait for a check that hangs; others run, and the twelve are refused."""
    _install(tmp_path, ("hanging",))
    with trainers(tmp_path, f"{tmp_path}{os.pathsep}{python_path}") as make:
        noted = tmp_path / "pid"
        trainer = make(check_timeout_s="15").start(UNRULY_PID=str(noted))
        refused: list[str] = []

        def submit() -> None:
            with pytest.raises(InvalidConfigError) as problem:
                trainer.client.submit(_config("hanging"))
            refused.append(str(problem.value))

        # More than the shared pool has threads on any machine this small.
        asking = [threading.Thread(target=submit) for _ in range(12)]
        for thread in asking:
            thread.start()
        until(noted.exists, "the check hangs")
        assert trainer.ended(trainer.submit("short")).completed
        for thread in asking:
            thread.join()
        # One answer for all: they do not wait fifteen seconds each.
        assert len(refused) == 12
        assert all("longer than 15 s" in text for text in refused)
        assert process_state(int(noted.read_text())) in ("", "Z", "X")


def test_f04_the_helper_of_a_hung_check_dies_with_the_daemon(
    tmp_path: Path, python_path: str
) -> None:
    """After kill -9 of the daemon no helper is left for longer than its own limit."""
    _install(tmp_path, ("hanging",))
    with trainers(tmp_path, f"{tmp_path}{os.pathsep}{python_path}") as make:
        noted = tmp_path / "pid"
        trainer = make(check_timeout_s="15").start(UNRULY_PID=str(noted))
        asking = threading.Thread(target=_ask_in_vain, args=(trainer,))
        asking.start()
        pid = int(until(lambda: noted.exists() and noted.read_text(), "the check hangs"))
        trainer.kill()
        asking.join()
        until(lambda: process_state(pid) in ("", "Z", "X"), "the helper has ended")


def _ask_in_vain(trainer: Trainer) -> None:
    # Refused in the end, or cut off with the daemon: both are fine here.
    with pytest.raises(Exception, match=r"."):
        trainer.client.submit(_config("hanging"))


def test_f04_packages_that_cannot_be_loaded_are_listed_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python_path: str
) -> None:
    """A descriptor may end the process or make no sense: the other workers are found."""
    _install(tmp_path, _WORKERS)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{python_path}")
    # This process only lists the names; the packages are imported elsewhere.
    monkeypatch.syspath_prepend(str(tmp_path))
    found = discover_fenced()
    assert "exit code 0" in found["vanishing"].problem
    assert "not WorkerCapabilities" in found["senseless"].problem
    assert found["hanging"].capabilities is not None
    for name in ("cleanrl", "human", "example"):
        assert found[name].capabilities is not None
    assert "ppo" in (found["cleanrl"].algorithms or ())
