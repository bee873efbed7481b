"""Logs in the window: followed, searched, folded, and large."""

from pathlib import Path
from typing import Any

import psutil
from qtpy.QtCore import QPoint, Qt
from qtpy.QtTest import QTest

from gym_gui.models.log_folding import TracebackFolder
from gym_gui.widgets.log_view import KEEP_LINES, is_error

from .conftest import Driver, config_of

_TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
  File "train.py", line 2, in main
    raise ValueError("the shapes differ")
ValueError: the shapes differ
"""
_CHAINED = (
    _TRACEBACK
    + """
During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "train.py", line 9, in <module>
    save()
OSError: no space left
"""
)


def _entries(text: str) -> list[tuple[str, int]]:
    folder = TracebackFolder()
    entries = [*folder.feed("stderr", text.splitlines()), *folder.flush()]
    return [(entry.text, len(entry.folded)) for entry in entries]


def test_a_traceback_is_one_line_with_its_frames_counted() -> None:
    """Twelve lines of a traceback read as the exception and how deep it came from."""
    assert _entries(f"before\n{_TRACEBACK}after\n") == [
        ("before", 0),
        ("ValueError: the shapes differ (2 frames)", 6),
        ("after", 0),
    ]


def test_chained_tracebacks_are_one() -> None:
    """An exception raised while handling another is one story, named after its end."""
    assert _entries(f"{_CHAINED}\nafter") == [
        ("OSError: no space left (3 frames)", 13),
        ("", 0),
        ("after", 0),
    ]


def test_what_only_looks_like_a_traceback_is_kept_as_it_is() -> None:
    """No line is lost when a traceback breaks off."""
    broken = 'Traceback (most recent call last):\n  File "a.py", line 1'
    assert [text for text, _ in _entries(broken)] == broken.splitlines()
    assert _entries("one\n\ntwo") == [("one", 0), ("", 0), ("two", 0)]


def test_errors_are_told_from_numbers_that_are_called_errors() -> None:
    """A loss named td_error is no error; an exception's name is."""
    assert is_error("FileNotFoundError: gone")
    assert is_error("fatal: cannot go on")
    assert not is_error("step 3 td_error=0.25")


def _finished(driver: Driver, stdout: bytes, stderr: bytes = b"") -> str:
    """A run that has ended, with logs of our own making."""
    run_id = driver.submit(config_of(total_timesteps=2, extras={"step_ms": 1}))
    folder = Path(driver.reaches(run_id, "TERM").run_dir) / "logs"
    (folder / "stdout.log").write_bytes(stdout)
    (folder / "stderr.log").write_bytes(stderr)
    return run_id


def _logs_of(driver: Driver, run_id: str) -> Any:
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(run_id)
    driver.window.binder.trigger("analyse.logs")
    return driver.window.run_panel.tab("logs")


def test_tracebacks_fold_and_open_in_the_window(driver: Driver) -> None:
    """A click on the exception shows the frames it came from, Return hides them again."""
    logs = _logs_of(driver, _finished(driver, b"ready\n", _TRACEBACK.encode()))
    driver.until(lambda: "(2 frames)" in logs.text.toPlainText(), "the folded traceback")
    document = logs.text.document()
    block = next(
        one
        for one in map(document.findBlockByNumber, range(document.blockCount()))
        if "(2 frames)" in one.text()
    )
    inside = block.next()
    assert not inside.isVisible()
    cursor = logs.text.textCursor()
    cursor.setPosition(block.position())
    logs.text.setTextCursor(cursor)
    place = logs.text.cursorRect().center() + QPoint(20, 0)
    QTest.mouseClick(
        logs.text.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, place
    )
    assert inside.isVisible()
    assert "Traceback" in inside.text()
    QTest.keyClick(logs.text, Qt.Key.Key_Return)
    assert not inside.isVisible()


def test_a_large_log_is_shown_searched_and_left_without_growing(driver: Driver) -> None:
    """A log of 60 MB: its end, a search and the first error, the window's memory stays flat."""
    filler = b"".join(
        b"step %07d loss 0.%04d td_error=0.01\n" % (n, n % 9999) for n in range(20000)
    )
    rounds = 60_000_000 // len(filler)
    middle = b"RuntimeError: the needle\n"
    half = filler * (rounds // 2)
    run_id = _finished(driver, half + middle + half + b"the very last line\n")
    del half
    logs = _logs_of(driver, run_id)
    driver.until(lambda: "the very last line" in logs.text.toPlainText(), "the end")
    before = psutil.Process().memory_info().rss
    logs.search.setText("nee[d]le")
    logs.restart()
    driver.until(lambda: logs.status.startswith("1 line found"), "the hit", 60)
    logs.search.clear()
    logs.jump_to_error()
    driver.until(lambda: "needle" in logs.text.textCursor().selectedText(), "the error", 60)
    assert not logs.follow.isChecked()
    lines = logs.text.blockCount()
    bar = logs.text.verticalScrollBar()
    bar.setValue(bar.maximum())
    driver.until(lambda: logs.text.blockCount() > lines, "the lines after it")
    assert logs.text.blockCount() <= KEEP_LINES
    logs.follow.setChecked(True)
    driver.until(lambda: "the very last line" in logs.text.toPlainText(), "the end again")
    grown = psutil.Process().memory_info().rss - before
    assert grown < 60_000_000, f"the window grew by {grown / 1e6:.0f} MB"


def test_a_log_without_errors_says_so(driver: Driver) -> None:
    """Looking for the first error of a clean log ends with a word and the log's end."""
    logs = _logs_of(driver, _finished(driver, b"all is well\n"))
    driver.until(lambda: "all is well" in logs.text.toPlainText(), "the log")
    logs.jump_to_error()
    driver.until(lambda: "no error in the whole log" in logs.status, "the word")
    assert "all is well" in logs.text.toPlainText()
