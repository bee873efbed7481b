"""A run's logs: followed, searched on the daemon's side, fluid at any size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from qtpy.QtCore import QTimer
from qtpy.QtGui import QColor, QFontDatabase, QTextCharFormat, QTextCursor
from qtpy.QtWidgets import QCheckBox, QComboBox, QLineEdit, QPlainTextEdit

from gym_gui.background.streams import Stream
from gym_gui.services import Services
from gym_gui.tabs.base import RunTab
from gym_gui.widgets.basics import button, column, label, restyle, row
from mosaic.client import TrainerClient

_TAIL_LINES = 3000
_KEEP_LINES = 20_000
_LINES_A_TURN = 250
_MAX_HITS = 5000
_ERRORS = r"(?i)\b(error|exception|traceback|fatal|killed)\b"
_WARNINGS = r"(?i)\b(warn(ing)?|error|exception|traceback|fatal|killed)\b"
_LEVELS = {"Everything": "", "Warnings and errors": _WARNINGS, "Errors": _ERRORS}
_ERROR_LINE = re.compile(_ERRORS)


class LogsTab(RunTab):
    """The newest lines, following, or every line that fits a search."""

    title = "Logs"
    icon = "log"

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._stream: Stream | None = None
        self._backlog: list[tuple[str, str]] = []
        self._seen = 0
        self.search = QLineEdit()
        self.search.setPlaceholderText("Search all lines with a regular expression, press Return")
        self.search.setClearButtonEnabled(True)
        self.search.setAccessibleName("Search logs")
        self.search.returnPressed.connect(self.restart)
        self.search.textChanged.connect(self._on_search_text)
        self.level = QComboBox()
        self.level.addItems(list(_LEVELS))
        self.level.setAccessibleName("Level")
        self.level.currentTextChanged.connect(lambda _text: self.restart())
        self.follow = QCheckBox("Follow")
        self.follow.setChecked(True)
        self.lifecycle = QCheckBox("Lifecycle lines")
        self.lifecycle.setToolTip("Also show the worker's own protocol on standard output")
        self.lifecycle.toggled.connect(lambda _on: self.restart())
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setMaximumBlockCount(_KEEP_LINES)
        self.text.setUndoRedoEnabled(False)
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.text.setAccessibleName("Log lines")
        self.text.setPlaceholderText("No lines yet. What the run prints appears here.")
        self._status = label("", "muted")
        self._jump = button("First error", self.jump_to_error)
        top = row(self.search, self.level, self.lifecycle, self.follow, self._jump)
        top.setStretch(0, 1)
        self.setLayout(column(top, self.text, self._status, margin=10))
        self._drain_timer = QTimer(self)
        self._drain_timer.setInterval(0)
        self._drain_timer.timeout.connect(self._drain)

    def on_other_run(self) -> None:
        self.text.clear()

    def on_open(self) -> None:
        self.restart()

    def on_close(self) -> None:
        self._drain_timer.stop()
        self._backlog = []
        if self._stream is not None:
            self._stream.stop()
            self._stream = None

    def restart(self) -> None:
        """Read anew, with the search and level in use."""
        if not self.active or self.run is None:
            return
        self.on_close()
        self.text.clear()
        self._seen = 0
        pattern = self._pattern()
        if pattern is None:
            return
        self._status.setText("Reading …")
        stream = Stream(
            self.services.link, partial(_open, self.run_id, pattern, self.lifecycle.isChecked())
        )
        stream.items.connect(self._take)
        stream.ended.connect(self._on_end)
        self._stream = self.services.streams.keep(stream)

    def jump_to_error(self) -> None:
        """Go to the first line on screen that reports an error."""
        block = self.text.document().begin()
        while block.isValid():
            if _ERROR_LINE.search(block.text()):
                self.follow.setChecked(False)
                cursor = QTextCursor(block)
                cursor.select(QTextCursor.SelectionType.LineUnderCursor)
                self.text.setTextCursor(cursor)
                self.text.centerCursor()
                return
            block = block.next()
        self._status.setText("No error in these lines.")

    def _pattern(self) -> str | None:
        typed = self.search.text().strip()
        try:
            re.compile(typed)
        except re.error as error:
            self._status.setText(f"Not a regular expression: {error}")
            restyle(self.search, "problem", "true")
            return None
        restyle(self.search, "problem", "false")
        level = _LEVELS[self.level.currentText()]
        if typed and level:
            return f"(?i)(?=.*{level.removeprefix('(?i)')})(?=.*{typed})"
        return typed or level

    def _take(self, items: list[tuple[str, str]]) -> None:
        for stream, text in items:
            self._backlog += [(stream, line) for line in text.splitlines()]
        if not self._drain_timer.isActive():
            self._drain_timer.start()

    def _drain(self) -> None:
        lines, self._backlog = self._backlog[:_LINES_A_TURN], self._backlog[_LINES_A_TURN:]
        if not lines:
            self._drain_timer.stop()
            self._status.setText(f"{self._seen:,} lines")
            return
        self._seen += len(lines)
        bar = self.text.verticalScrollBar()
        place = bar.value()
        cursor = QTextCursor(self.text.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.beginEditBlock()
        for stream, line in lines:
            if not self.text.document().isEmpty():
                cursor.insertBlock()
            cursor.insertText(line, self._format(stream, line))
        cursor.endEditBlock()
        bar.setValue(bar.maximum() if self.follow.isChecked() else place)

    def _format(self, stream: str, line: str) -> QTextCharFormat:
        theme = self.services.themes.theme
        shape = QTextCharFormat()
        colour = theme.text
        if _ERROR_LINE.search(line):
            colour = theme.danger
        elif stream == "stderr":
            colour = theme.muted
        shape.setForeground(QColor(colour))
        return shape

    def _on_end(self, problem: str) -> None:
        if problem:
            self._status.setText(f"The log could not be read: {problem}")
        elif not self._backlog and not self._seen:
            self._status.setText("Nothing fits." if self.search.text() else "The log is empty.")

    def _on_search_text(self, text: str) -> None:
        if not text:
            self.restart()


def _open(
    run_id: str, pattern: str, lifecycle: bool, client: TrainerClient
) -> Iterator[tuple[str, str]]:
    options = {"grep": pattern} if pattern else {"tail_lines": _TAIL_LINES}
    hits = 0
    for stream, text in client.logs(run_id, follow=True, lifecycle=lifecycle, **options):
        hits += text.count("\n")
        yield stream, text
        if pattern and hits >= _MAX_HITS:
            yield stream, f"… more than {_MAX_HITS:,} lines fit; narrow the search\n"
            return
