"""The search for what tests leave behind finds what is left behind."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from qtpy.QtCore import QObject, QThread, QTimer
from support.window_leaks import Holdings, left_since


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch, qapp: Any) -> None:
    monkeypatch.setattr("support.window_leaks.PATIENCE_S", 0.2)


def test_a_thread_is_found() -> None:
    """A thread that runs on is named."""
    before, over = Holdings.now(), threading.Event()
    thread = threading.Thread(target=over.wait, name="forgotten", daemon=True)
    thread.start()
    assert left_since(before) == ["thread forgotten"]
    over.set()
    thread.join()
    assert left_since(before) == []


def test_timers_and_qt_threads_are_found_without_a_window() -> None:
    """A timer that ticks and a Qt thread that runs are found, whoever owns them."""
    before, owner = Holdings.now(), QObject()
    timer = QTimer(owner)
    timer.start(1000)
    assert [one.split()[0] for one in left_since(before)] == ["QTimer"]
    timer.stop()
    thread = QThread(owner)
    thread.start()
    assert [one.split()[0] for one in left_since(before)] == ["QThread"]
    thread.quit()
    thread.wait()
    assert left_since(before) == []


def test_a_process_is_found() -> None:
    """A helper that was not ended is named by its command."""
    before = Holdings.now()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    (left,) = left_since(before)
    assert "time.sleep(60)" in left
    child.kill()
    child.wait()
    assert left_since(before) == []


def test_a_file_is_found(tmp_path: Path) -> None:
    """A file that was not closed is named."""
    before = Holdings.now()
    with (tmp_path / "open.txt").open("w"):
        assert left_since(before) == [f"file {tmp_path / 'open.txt'}"]
    assert left_since(before) == []
