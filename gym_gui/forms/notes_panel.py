"""The user's own notes, and beneath them, apart, what dry runs said and when."""

import time

from qtpy.QtCore import Signal
from qtpy.QtGui import QFontDatabase
from qtpy.QtWidgets import QPlainTextEdit, QWidget

from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column
from gym_gui.widgets.qt_types import sure
from mosaic.presenting import formatting


class NotesPanel(QWidget):
    """Two texts: one to write, one to read.

    Signals:
        edited: The user's notes changed.
    """

    edited = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.notes = QPlainTextEdit()
        self.notes.setPlaceholderText("What is this run for? Kept with the run.")
        self.notes.setAccessibleName("Notes")
        self.notes.setTabChangesFocus(True)
        self.notes.textChanged.connect(self.edited)
        self.results = QPlainTextEdit()
        self.results.setReadOnly(True)
        self.results.setPlaceholderText("Results of dry runs appear here.")
        self.results.setAccessibleName("Dry run results")
        self.results.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.results.setMaximumBlockCount(2000)
        self.setLayout(
            column(
                label("Your notes", "section"),
                self.notes,
                label("Dry runs", "section"),
                self.results,
                margin=10,
            )
        )

    def begin(self, what: str) -> None:
        """A dry run has started."""
        self._append(f"{what}: checking …")

    def add_result(self, ok: bool, text: str) -> None:
        """A dry run has ended."""
        verdict = "passed" if ok else "refused"
        self._append(f"dry run {verdict}\n{formatting.tilde(text.strip())}\n")

    def _append(self, text: str) -> None:
        self.results.appendPlainText(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] {text}")
        bar = sure(self.results.verticalScrollBar())
        bar.setValue(bar.maximum())
