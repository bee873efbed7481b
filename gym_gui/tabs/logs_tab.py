"""A run's logs: followed, searched on the daemon's side, fluid at any size."""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import re2
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QCheckBox, QComboBox, QLineEdit

from gym_gui.background.log_reading import (
    TAIL_LINES,
    Place,
    first_error,
    newest_or_fitting,
    page,
)
from gym_gui.background.streams import Stream
from gym_gui.models.log_folding import Entry, TracebackFolder
from gym_gui.services import Services
from gym_gui.tabs.base import RunTab
from gym_gui.widgets.controls import button, restyle
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, row
from gym_gui.widgets.log_view import ERRORS, KEEP_LINES, WARNINGS, LogView
from gym_gui.widgets.qt_types import sure
from mosaic.client import TrainerClient
from mosaic.presenting import formatting
from mosaic.records import LogChunk

# Appending more in one turn of the event loop would be felt while scrolling.
_LINES_A_TURN = 250
# A traceback is written in one go; one that has not ended by then is shown as it is.
_HOLD_MS = 400
_LEVELS = {"Everything": "", "Warnings and errors": WARNINGS, "Errors": ERRORS}


class LogsTab(RunTab):
    """The newest lines, following; or every line that fits a search; or the lines at a place."""

    title = "Logs"
    icon = "log"

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._stream: Stream | None = None
        self._backlog: deque[Entry] = deque()
        self._folder = TracebackFolder()
        self._seen = 0
        self._size: dict[str, int] = {}
        self._place: Place | None = None
        self._note = ""
        self._make_controls()
        self.text = LogView(services.themes)
        self.text.setAccessibleName("Log lines")
        self.text.setPlaceholderText("No lines yet. What the run prints appears here.")
        self._status = label("", "muted")
        first = button("Beginning", self.show_beginning, tip="The first lines of the log")
        self._jump = button(
            "First error", self.jump_to_error, tip="The first error in the whole log"
        )
        top = row(self.search, self.level, self.lifecycle, self.follow, first, self._jump)
        top.setStretch(0, 1)
        self.setLayout(column(top, self.text, self._status, margin=10))
        self._drain_timer = QTimer(self)
        self._drain_timer.setInterval(0)
        self._drain_timer.timeout.connect(self._drain)
        self._hold_timer = QTimer(self)
        self._hold_timer.setSingleShot(True)
        self._hold_timer.setInterval(_HOLD_MS)
        self._hold_timer.timeout.connect(self._show_held)
        sure(self.text.verticalScrollBar()).valueChanged.connect(self._on_scroll)
        services.themes.changed.connect(self.on_open)

    def _make_controls(self) -> None:
        self.search = QLineEdit()
        self.search.setPlaceholderText("Search with a regular expression")
        self.search.setClearButtonEnabled(True)
        self.search.setAccessibleName("Search logs")
        self.search.setToolTip("Return searches the whole log, however large it is")
        self.search.returnPressed.connect(lambda: self.restart())
        self.search.textChanged.connect(self._on_search_text)
        self.level = QComboBox()
        self.level.addItems(list(_LEVELS))
        self.level.setAccessibleName("Level")
        self.level.currentTextChanged.connect(lambda _text: self.restart())
        self.follow = QCheckBox("Follow")
        self.follow.setToolTip("Stay at the end of the log")
        self.follow.setChecked(True)
        self.follow.toggled.connect(self._on_follow)
        self.lifecycle = QCheckBox("Lifecycle lines")
        self.lifecycle.setToolTip("Also show the worker's own protocol on standard output")
        self.lifecycle.toggled.connect(lambda _on: self.restart())

    def on_other_run(self) -> None:
        self.text.clear()
        self._place = None

    def on_open(self) -> None:
        place = self._place
        if place is None:
            self.restart()
        else:
            self._show_place(Place(place.stream, place.start, place.start, place.at_error))

    def on_close(self) -> None:
        self._drain_timer.stop()
        self._hold_timer.stop()
        self._backlog.clear()
        self._folder = TracebackFolder()
        if self._stream is not None:
            self._stream.stop()
            self._stream = None

    def restart(self, note: str = "") -> None:
        """Read again, with the search and level in use."""
        if not self.active or self.run is None:
            return
        self._place = None
        self._begin(note)
        pattern = self._pattern()
        if pattern is not None:
            level = _LEVELS[self.level.currentText()]
            self._read(partial(newest_or_fitting, self.run_id, pattern, level, self._lifecycle))

    def show_beginning(self) -> None:
        """Show the first lines of what the run printed."""
        self._show_place(Place("stdout", 0, 0))

    def jump_to_error(self) -> None:
        """Go to the first line of the whole log that reports an error."""
        if not self.active or self.run is None:
            return
        self.on_close()
        self._status.setText("Looking for the first error …")
        self._read(partial(first_error, self.run_id, ERRORS, self._lifecycle), self._on_no_error)

    @property
    def status(self) -> str:
        """How much of the log is shown, or what is wrong."""
        return self._status.text()

    @property
    def _lifecycle(self) -> bool:
        return bool(self.lifecycle.isChecked())

    # ------------------------------------------------------------ reading

    def _begin(self, note: str = "") -> None:
        """An empty page, and nothing under way."""
        self.on_close()
        self.text.clear()
        self._seen, self._size, self._note = 0, {}, note
        self._status.setText("Reading …")

    def _read(
        self,
        open_stream: Callable[[TrainerClient], Iterator[object]],
        ended: Callable[[str], None] | None = None,
    ) -> None:
        stream = Stream(self.link, open_stream)
        stream.items.connect(self._take)
        stream.ended.connect(ended or self._on_end)
        self._stream = self.services.streams.keep(stream)

    def _show_place(self, place: Place) -> None:
        if not self.active or self.run is None:
            return
        self.follow.setChecked(False)
        self._begin()
        self._place = place
        self._read_page(place)

    def _read_page(self, place: Place) -> None:
        cut = place.offset == place.start > 0
        read = partial(page, self.run_id, place.stream, place.offset, self._lifecycle, cut)
        self._read(read)

    def _on_scroll(self, value: int) -> None:
        """At the lower end of a place, the lines after it follow."""
        bar = sure(self.text.verticalScrollBar())
        if self._place is None or self._stream is not None or value < bar.maximum():
            return
        if not self._backlog and self._place.offset < self._size.get(self._place.stream, 0):
            self._read_page(self._place)

    def _pattern(self) -> str | None:
        typed = self.search.text().strip()
        # The daemon's own engine: what it would refuse is said here, before anything is asked.
        options = re2.Options()
        options.log_errors = False
        try:
            re2.compile(typed, options)
        except re2.error as error:
            reason = error.args[0]
            text = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
            self._status.setText(f"Not a regular expression for logs: {text}")
            restyle(self.search, "problem", "true")
            return None
        restyle(self.search, "problem", "false")
        return typed

    # ------------------------------------------------------------ showing

    def _take(self, chunks: list[LogChunk | Place]) -> None:
        for chunk in chunks:
            if isinstance(chunk, Place):
                self._show_place(chunk)
                return
            self._size[chunk.stream] = chunk.size
            if self._place is not None:
                self._place.offset = chunk.offset
            lines = chunk.text.splitlines()
            if self._searching:
                self._backlog += [Entry(chunk.stream, line) for line in lines]
            else:
                self._backlog += self._folder.feed(chunk.stream, lines)
            if not lines:
                self._status.setText(_progress(chunk.offset, chunk.size))
        # The page keeps no more than this; what would fall off it again is not put there.
        while len(self._backlog) > KEEP_LINES:
            self._backlog.popleft()
            self._seen += 1
        self._hold_timer.start()
        if self._backlog and not self._drain_timer.isActive():
            self._drain_timer.start()

    @property
    def _searching(self) -> bool:
        chosen = self.search.text().strip() or _LEVELS[self.level.currentText()]
        return self._place is None and bool(chosen)

    def _show_held(self) -> None:
        self._backlog += self._folder.flush()
        self._drain_timer.start()

    def _drain(self) -> None:
        entries = list(islice(self._backlog, _LINES_A_TURN))
        for _ in entries:
            self._backlog.popleft()
        self._seen += sum(max(1, len(entry.folded)) for entry in entries)
        if entries:
            self.text.append_entries(entries, self.follow.isChecked())
        if not self._backlog:
            self._drain_timer.stop()
            self._on_drained()

    def _on_drained(self) -> None:
        size = formatting.size(sum(self._size.values()))
        noun = "line" if self._seen == 1 else "lines"
        words = f"{self._seen:,} {noun}"
        if self._place is not None:
            if self._place.at_error:
                self._place.at_error = not self.text.first_error()
            words += f" of {self._place.stream}, {size} in all. Scroll down for more."
        elif self._searching:
            words += f" found in {size}."
        elif self._size:
            words += f" at the end of {size}." if self._seen >= TAIL_LINES else f", {size}."
        self._status.setText(f"{self._note} {words}".strip())

    def _on_end(self, problem: str) -> None:
        self._stream = None
        if problem:
            self._note = f"The log could not be read: {problem}."
        self._show_held()

    def _on_no_error(self, problem: str) -> None:
        self._stream = None
        reason = f"The log could not be searched: {problem}." if problem else ""
        self.restart(reason or "There is no error in the whole log.")

    def _on_follow(self, on: bool) -> None:
        if on and self._place is not None:
            self.restart()
        elif on:
            bar = sure(self.text.verticalScrollBar())
            bar.setValue(bar.maximum())

    def _on_search_text(self, text: str) -> None:
        if not text:
            self.restart()


def _progress(done: int, size: int) -> str:
    share = done / size if size else 1.0
    return f"Searched {share:.0%} of {formatting.size(size)} …"
