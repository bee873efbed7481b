"""Lines of a log: coloured, never more than a screen can hold in memory, tracebacks folded."""

import re
from collections.abc import Iterable

from qtpy.QtCore import Qt
from qtpy.QtGui import (
    QColor,
    QFont,
    QFontDatabase,
    QKeyEvent,
    QMouseEvent,
    QTextBlock,
    QTextCharFormat,
    QTextCursor,
)
from qtpy.QtWidgets import QPlainTextEdit

from gym_gui.models.log_folding import Entry
from gym_gui.resources.theming import ThemeManager
from gym_gui.widgets.qt_types import sure

KEEP_LINES = 20_000
_ERROR_WORDS = (
    "(^|[^_])error|Error|ERROR|exception|Exception|EXCEPTION|"
    "Traceback|fatal|Fatal|FATAL|killed|Killed"
)
# `ValueError` reports one, `td_error=0.3` does not. Words in each case, because a search that
# ignores case takes four times as long. The daemon's search knows no lookbehind.
ERRORS = rf"({_ERROR_WORDS})\b"
WARNINGS = rf"({_ERROR_WORDS}|warning|Warning|WARNING|WARN)\b"
_ERROR_LINE = re.compile(ERRORS)
_CLOSED, _OPENED, _INSIDE = 1, 2, 3
_OPENING_KEYS = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space)
_MARKS = {_CLOSED: "▸ ", _OPENED: "▾ "}


class LogView(QPlainTextEdit):
    """Shows the newest entries; a click or Return on a traceback opens and closes it."""

    def __init__(self, themes: ThemeManager) -> None:
        super().__init__()
        self._themes = themes
        self.setReadOnly(True)
        self.setMaximumBlockCount(KEEP_LINES)
        # Every line would be kept a second time for undoing.
        self.setUndoRedoEnabled(False)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )

    def append_entries(self, entries: Iterable[Entry], follow: bool) -> None:
        """Add entries at the end; `follow` keeps the end in sight."""
        bar = sure(self.verticalScrollBar())
        place = bar.value()
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.beginEditBlock()
        for entry in entries:
            if entry.folded:
                self._add(cursor, _MARKS[_CLOSED] + entry.text, self._bold(), _CLOSED)
                for line in entry.folded:
                    self._add(cursor, f"    {line}", self._colour("muted"), _INSIDE)
                    cursor.block().setVisible(False)
            else:
                self._add(cursor, entry.text, self._format(entry))
        cursor.endEditBlock()
        bar.setValue(bar.maximum() if follow else place)

    def first_error(self) -> bool:
        """Go to the first line that reports an error; False when none does."""
        block = sure(self.document()).begin()
        while block.isValid():
            if block.isVisible() and is_error(block.text()):
                cursor = QTextCursor(block)
                cursor.movePosition(
                    QTextCursor.MoveOperation.EndOfBlock, QTextCursor.MoveMode.KeepAnchor
                )
                self.setTextCursor(cursor)
                self.centerCursor()
                sure(self.horizontalScrollBar()).setValue(0)
                return True
            block = block.next()
        return False

    def toggle(self, block: QTextBlock) -> bool:
        """Open or close the traceback whose line this is; False when it is none."""
        if block.userState() not in _MARKS:
            return False
        state = _OPENED if block.userState() == _CLOSED else _CLOSED
        cursor = QTextCursor(block)
        cursor.movePosition(QTextCursor.MoveOperation.Right, QTextCursor.MoveMode.KeepAnchor, 2)
        cursor.insertText(_MARKS[state])
        block.setUserState(state)
        inside, last = block.next(), block
        while inside.isValid() and inside.userState() == _INSIDE:
            inside.setVisible(state == _OPENED)
            last, inside = inside, inside.next()
        end = last.position() + last.length()
        sure(self.document()).markContentsDirty(block.position(), end - block.position())
        layout = sure(sure(self.document()).documentLayout())
        layout.documentSizeChanged.emit(layout.documentSize())
        return True

    def mouseReleaseEvent(self, event: QMouseEvent | None) -> None:  # noqa: N802
        super().mouseReleaseEvent(event)
        if event is None:
            return
        if event.button() == Qt.MouseButton.LeftButton and not self.textCursor().hasSelection():
            self.toggle(self.cursorForPosition(event.position().toPoint()).block())

    def keyPressEvent(self, event: QKeyEvent | None) -> None:  # noqa: N802
        opens = event is not None and event.key() in _OPENING_KEYS
        if opens and self.toggle(self.textCursor().block()):
            return
        super().keyPressEvent(event)

    def _add(self, cursor: QTextCursor, text: str, shape: QTextCharFormat, state: int = -1) -> None:
        if not sure(self.document()).isEmpty():
            cursor.insertBlock()
        cursor.insertText(text, shape)
        cursor.block().setUserState(state)
        cursor.block().setVisible(True)

    def _format(self, entry: Entry) -> QTextCharFormat:
        if is_error(entry.text):
            return self._colour("danger")
        return self._colour("muted" if entry.stream == "stderr" else "text")

    def _colour(self, tone: str) -> QTextCharFormat:
        shape = QTextCharFormat()
        shape.setForeground(QColor(self._themes.theme.tone(tone)))
        return shape

    def _bold(self) -> QTextCharFormat:
        shape = self._colour("danger")
        shape.setFontWeight(QFont.Weight.DemiBold)
        return shape


def is_error(line: str) -> bool:
    """Whether a line reports an error."""
    return bool(_ERROR_LINE.search(line))
