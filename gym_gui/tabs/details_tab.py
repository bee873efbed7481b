"""The run's config as it was submitted, and everything that happened to it."""

import json
import time

from qtpy.QtCore import Qt
from qtpy.QtGui import QFontDatabase
from qtpy.QtWidgets import QHeaderView, QPlainTextEdit, QSplitter, QTableWidget, QTableWidgetItem

from gym_gui.services import Services
from gym_gui.tabs.base import RunTab
from gym_gui.widgets.controls import plain_table
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, framed
from gym_gui.widgets.qt_types import sure
from mosaic.records import RunEvent


class DetailsTab(RunTab):
    """Config and events."""

    title = "Details"
    icon = "book"

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self.config = QPlainTextEdit()
        self.config.setReadOnly(True)
        self.config.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.config.setAccessibleName("Config")
        self.events = QTableWidget(0, 4)
        self.events.setHorizontalHeaderLabels(["Time", "Event", "State", "More"])
        plain_table(self.events)
        self.events.setAccessibleName("Events")
        header = sure(self.events.horizontalHeader())
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setStretchLastSection(True)
        split = QSplitter(Qt.Orientation.Vertical)
        split.addWidget(framed(column(label("Config", "section"), self.config), "panel"))
        split.addWidget(framed(column(label("Events", "section"), self.events), "panel"))
        self.setLayout(column(split, margin=10))
        self._version = -1

    def on_other_run(self) -> None:
        self.config.clear()
        self.events.setRowCount(0)
        self._version = -1

    def on_open(self) -> None:
        if self.run is None:
            return
        run_id = self.run_id

        def show(text: str) -> None:
            if run_id == self.run_id:
                self.config.setPlainText(text)

        self.link.ask(
            lambda client: json.dumps(client.config(run_id), indent=2),
            show,
            lambda error: show(str(error)),
        )

    def on_news(self) -> None:
        if self.run is None or self.run.version == self._version:
            return
        # The version counts events: news that brings numbers alone does not change the list.
        self._version, run_id = self.run.version, self.run_id

        def show(events: list[RunEvent]) -> None:
            if run_id == self.run_id:
                self._fill(events)

        self.link.ask(lambda client: client.events(run_id), show, lambda _error: None)

    def _fill(self, events: list[RunEvent]) -> None:
        self.events.setRowCount(len(events))
        for place, event in enumerate(events):
            when = time.strftime("%H:%M:%S", time.localtime(event.at))
            more = json.dumps(dict(event.data)) if event.data else ""
            for at, text in enumerate((when, event.kind, event.state, more)):
                item = QTableWidgetItem(text)
                item.setToolTip(text)
                self.events.setItem(place, at, item)
        self.events.scrollToBottom()
