"""The run's config as it was submitted, and everything that happened to it."""

import json
import time
from pathlib import Path
from typing import Any

from qtpy.QtCore import Qt
from qtpy.QtGui import QFontDatabase
from qtpy.QtWidgets import QHeaderView, QPlainTextEdit, QSplitter, QTableWidget, QTableWidgetItem

from gym_gui.presenters.run_commands import read_config
from gym_gui.services import Services
from gym_gui.tabs.base import RunTab
from gym_gui.widgets.controls import plain_table
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, framed


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
        header = self.events.horizontalHeader()
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
        path, run_id = Path(self.run["run_dir"]) / "config.json", self.run_id

        def show(document: dict[str, Any]) -> None:
            if run_id == self.run_id:
                self.config.setPlainText(json.dumps(document, indent=2))

        self.services.link.calls.run(
            lambda: read_config(path), show, lambda error: self.config.setPlainText(str(error))
        )

    def on_news(self) -> None:
        if self.run is None or self.run["version"] == self._version:
            return
        self._version, run_id = self.run["version"], self.run_id

        def show(events: list[dict[str, Any]]) -> None:
            if run_id == self.run_id:
                self._fill(events)

        self.services.link.call("events", run_id, done=show, failed=lambda _error: None)

    def _fill(self, events: list[dict[str, Any]]) -> None:
        self.events.setRowCount(len(events))
        for place, event in enumerate(events):
            when = time.strftime("%H:%M:%S", time.localtime(event["at"]))
            more = json.dumps(event["data"]) if event["data"] else ""
            for at, text in enumerate((when, event["kind"], event["state"], more)):
                item = QTableWidgetItem(text)
                item.setToolTip(text)
                self.events.setItem(place, at, item)
        self.events.scrollToBottom()
