"""Step by step: the records of a telemetry-lane run as they arrive."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from qtpy.QtGui import QImage
from qtpy.QtWidgets import QCheckBox, QHeaderView, QTableWidget, QTableWidgetItem

from gym_gui.background.recordings import step_picture
from gym_gui.background.streams import Stream
from gym_gui.services import Services
from gym_gui.tabs.base import RunTab
from gym_gui.widgets.basics import Banner, column, label, plain_table, row
from gym_gui.widgets.frame_view import FrameView
from gym_gui.widgets.player import draw_world
from mosaic.client import TrainerClient

_KEEP = 400
_COLUMNS = ("Episode", "Step", "Action", "Reward", "End", "Observation")


class TelemetryTab(RunTab):
    """The newest steps, with the newest picture."""

    title = "Live"
    icon = "eye"

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._stream: Stream | None = None
        self._last = 0
        self.banner = Banner()
        self.view = FrameView(services.themes)
        self.follow = QCheckBox("Follow")
        self.follow.setChecked(True)
        self._status = label("", "muted")
        self.table = QTableWidget(0, len(_COLUMNS))
        self.table.setHorizontalHeaderLabels(list(_COLUMNS))
        plain_table(self.table)
        self.table.setAccessibleName("Steps")
        self.table.horizontalHeader().setStretchLastSection(True)
        self.table.horizontalHeader().setSectionResizeMode(0, QHeaderView.ResizeMode.Interactive)
        bar = row(self._status, 1, self.follow)
        self.setLayout(column(self.banner, self.view, bar, self.table, margin=10))
        self.layout().setStretch(1, 3)
        self.layout().setStretch(3, 2)

    def on_other_run(self) -> None:
        self.table.setRowCount(0)
        self.view.clear("Waiting for the first step …")
        self._last = 0
        self._status.setText("")

    def on_open(self) -> None:
        read = partial(_open, self.run_id, self._last)
        self._stream = self.services.streams.keep(Stream(self.services.link, read, retry=True))
        self._stream.items.connect(self._take)
        self._stream.ended.connect(self._on_end)

    def on_close(self) -> None:
        if self._stream is not None:
            self._stream.stop()
            self._stream = None

    def _take(self, batches: list[Any]) -> None:
        steps = [step for batch in batches for step in batch.steps]
        for batch in batches:
            if batch.HasField("gap"):
                missed = batch.gap.to - getattr(batch.gap, "from") + 1
                self.banner.say("warning", f"{missed:,} steps came too fast to show; all are kept.")
        if not steps:
            return
        self._last = steps[-1].seq
        newest = steps[-1]
        self._status.setText(
            f"episode {newest.episode}, step {newest.step}, {self._last:,} records"
        )
        for step in reversed(steps):
            image = _image(step)
            if image is not None:
                self.view.say("")
                self.view.show_image(image)
                break
        if self.follow.isChecked():
            self._append(steps[-_KEEP:])

    def _append(self, steps: list[Any]) -> None:
        for step in steps[-60:]:
            place = self.table.rowCount()
            self.table.insertRow(place)
            end = "terminated" if step.terminated else "truncated" if step.truncated else ""
            cells = (
                str(step.episode),
                str(step.step),
                step.action_json,
                f"{step.reward:g}",
                end,
                step.observation_json[:200],
            )
            for at, text in enumerate(cells):
                self.table.setItem(place, at, QTableWidgetItem(text))
        while self.table.rowCount() > _KEEP:
            self.table.removeRow(0)
        self.table.scrollToBottom()

    def _on_end(self, problem: str) -> None:
        if problem:
            self.banner.say("warning", f"The steps could not be read: {problem}")
        elif not self._last:
            self.view.clear("The run has recorded no steps.")


def _image(step: Any) -> QImage | None:
    if step.frame:
        return QImage.fromData(bytes(step.frame))
    return draw_world(step_picture(step))


def _open(run_id: str, after: int, client: TrainerClient) -> Iterator[Any]:
    return client.steps(run_id, after=after, follow=True)
