"""The check that ends every test session finds what it is there to find."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import leaks
from support.trainer import trainers, until


@pytest.fixture
def runaway() -> Iterator[int]:
    """A process that left its session and its parent."""
    script = (
        "import subprocess, sys;"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'],"
        " start_new_session=True, stdout=subprocess.DEVNULL); print(p.pid)"
    )
    pid = int(subprocess.check_output([sys.executable, "-c", script]))
    yield pid
    os.kill(pid, 9)


def test_a_process_that_ran_away_is_found(runaway: int) -> None:
    """Neither a new session nor a dead parent hides a process; other sessions are left out."""
    mark = os.environ[leaks.MARK]
    until(lambda: str(runaway) in _pids(leaks.marked_processes(mark)), "it is found")
    assert leaks.marked_processes("another session") == []


def _pids(found: list[str]) -> list[str]:
    return [line.split()[0] for line in found]


def test_shared_memory_that_nobody_holds_is_found() -> None:
    """A file that is still open somewhere has an owner; a forgotten one has not."""
    before = frozenset(os.listdir(leaks.SHARED_MEMORY))
    path = leaks.SHARED_MEMORY / f"left-by-test-{os.getpid()}"
    with open(path, "wb"):
        assert path.name not in leaks.abandoned_memory(before)
    try:
        assert path.name in leaks.abandoned_memory(before)
    finally:
        path.unlink()


def test_a_semaphore_in_use_is_not_taken_for_a_forgotten_one() -> None:
    """A program that another session runs meanwhile may hold locks of its own."""
    before = frozenset(os.listdir(leaks.SHARED_MEMORY))
    lock = multiprocessing.get_context("spawn").Lock()
    name = f"sem.{lock._semlock.name.strip('/')}"
    assert name in os.listdir(leaks.SHARED_MEMORY)
    assert name not in leaks.abandoned_memory(before)


def test_open_files_are_counted(tmp_path: Path) -> None:
    """Every file that is open counts once."""
    before = leaks.open_files()
    with open(tmp_path / "a", "w"), open(tmp_path / "b", "w"):
        assert leaks.open_files() == before + 2
    assert leaks.open_files() == before


def test_a_file_of_a_home_that_stays_open_is_found(tmp_path: Path, python_path: str) -> None:
    """A client that keeps a log or a database of its home open fails the test that made it."""
    homes = trainers(tmp_path, python_path)
    root = homes.__enter__()().home.root
    root.mkdir(parents=True)
    with (root / "kept").open("w"), pytest.raises(AssertionError, match=r"still open here: .*kept"):
        homes.__exit__(None, None, None)
