"""Step by step: the records of a telemetry-lane run as they arrive.

Of a session with a policy this is the live view: the game itself is shown, and can be taken over.
"""

from collections.abc import Iterator
from functools import partial

from qtpy.QtGui import QImage
from qtpy.QtWidgets import (
    QCheckBox,
    QHeaderView,
    QStackedWidget,
    QTableWidget,
    QTableWidgetItem,
    QTabWidget,
)

from gym_gui.background.recordings import step_picture
from gym_gui.background.streams import Stream
from gym_gui.models.series import Series
from gym_gui.services import Services
from gym_gui.tabs.base import RunTab
from gym_gui.tabs.session_view import SessionView
from gym_gui.widgets.chart import Chart
from gym_gui.widgets.chart_lines import Line, Look
from gym_gui.widgets.controls import plain_table
from gym_gui.widgets.frame_view import FrameView
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, row
from gym_gui.widgets.messages import Banner
from gym_gui.widgets.mind_view import MindView
from gym_gui.widgets.player import draw_world
from gym_gui.widgets.qt_types import sure
from mosaic.client import TrainerClient
from mosaic.presenting.actor import TAKE_OVER, actor_of
from mosaic.presenting.mind import read_mind
from mosaic.records import StepBatch, StepRecord

# Rows of a table widget are costly; everything is in the Replay tab anyway.
_KEEP = 400
_COLUMNS = ("Episode", "Step", "Action", "By", "Reward", "End", "Observation")
_EPISODE_COLUMNS = ("Episode", "Steps", "Return", "End")


class TelemetryTab(RunTab):
    """The newest steps with the newest picture, what the agent thinks, and its episodes."""

    title = "Live"
    icon = "eye"

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._stream: Stream | None = None
        self._last = 0
        self.banner = Banner()
        self.view = FrameView(services.themes)
        self.session = SessionView(services)
        self.session.over.connect(self._on_session_over)
        self._scene = QStackedWidget()
        self._scene.addWidget(self.view)
        self._scene.addWidget(self.session)
        self.follow = QCheckBox("Follow")
        self.follow.setChecked(True)
        self._status = label("", "muted")
        self.mind = MindView()
        self.table = _table(_COLUMNS, "Steps")
        self.episodes = _table(_EPISODE_COLUMNS, "Episodes")
        self.chart = Chart(services.themes, services.clock, "Return of each episode", "episodes")
        self._returns = Series()
        self._episode, self._episode_return = 0, 0.0
        below = QTabWidget()
        below.addTab(self.table, "Steps")
        below.addTab(self.episodes, "Episodes")
        below.addTab(self.chart, "Returns")
        picture = row(self._scene, self.mind)
        picture.setStretch(0, 1)
        bar = row(self._status, 1, self.follow)
        self.setLayout(column(self.banner, picture, bar, below, margin=10, stretch={1: 3, 3: 2}))

    def on_other_run(self) -> None:
        for table in (self.table, self.episodes):
            table.setRowCount(0)
        self.mind.forget()
        self._returns = Series()
        self._episode, self._episode_return = 0, 0.0
        self.view.clear("Waiting for the first step …")
        self._scene.setCurrentWidget(self.view)
        self._last = 0
        self._status.setText("")

    def on_open(self) -> None:
        read = partial(_open, self.run_id, self._last)
        self._stream = self.services.streams.keep(Stream(self.link, read, retry=True))
        self._stream.items.connect(self._take)
        self._stream.ended.connect(self._on_end)
        if self.run is not None and self.run.mode == TAKE_OVER and not self.run.ended:
            self._scene.setCurrentWidget(self.session)
            self.session.open(self.run_id)

    def on_news(self) -> None:
        run = self.run
        if run is not None and run.ended and self._scene.currentWidget() is self.session:
            self.session.close_link()
            self._on_session_over(run.reason or "The session has ended.")

    def on_close(self) -> None:
        self.session.close_link()
        if self._stream is not None:
            self._stream.stop()
            self._stream = None

    def _take(self, batches: list[StepBatch]) -> None:
        steps = [step for batch in batches for step in batch.steps]
        for batch in batches:
            if batch.gap is not None:
                missed = batch.gap.count
                self.banner.say(
                    "warning", f"{missed:,} steps came too fast to show; all are recorded."
                )
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
        self._count(steps)
        if self.follow.isChecked():
            self.mind.show_mind(read_mind(newest.info_json))
            self._append(steps)

    def _count(self, steps: list[StepRecord]) -> None:
        """Add up the rewards of each episode and note those that ended."""
        ended: list[tuple[int, float]] = []
        for step in steps:
            if step.episode != self._episode:
                self._episode, self._episode_return = step.episode, 0.0
            self._episode_return += step.reward
            if step.terminated or step.truncated:
                end = "terminated" if step.terminated else "truncated"
                ended.append((step.episode, self._episode_return))
                total = f"{self._episode_return:g}"
                _add_row(self.episodes, (str(step.episode), str(step.step + 1), total, end))
        if ended:
            numbers, returns = zip(*ended, strict=True)
            self._returns.extend(numbers, returns, [0.0] * len(ended))
            colour = self.services.themes.theme.series[0]
            line = Line(self._returns, "return", colour, strong=True)
            self.chart.set_lines({"return": line}, Look(smoothing=0.0))

    def _append(self, steps: list[StepRecord]) -> None:
        # A screenful: rows that scroll by unread would only cost the GUI thread time.
        for step in steps[-60:]:
            end = "terminated" if step.terminated else "truncated" if step.truncated else ""
            _add_row(
                self.table,
                (
                    str(step.episode),
                    str(step.step),
                    step.action_json,
                    actor_of(step.info_json),
                    f"{step.reward:g}",
                    end,
                    step.observation_json[:200],
                ),
            )

    def _on_session_over(self, words: str) -> None:
        self._scene.setCurrentWidget(self.view)
        self.banner.say("info", f"{words} Its episodes are in the Replay tab.")

    def _on_end(self, problem: str) -> None:
        if problem:
            self.banner.say("warning", f"The steps could not be read: {problem}")
        elif not self._last:
            self.view.clear("The run has recorded no steps.")


def _table(columns: tuple[str, ...], name: str) -> QTableWidget:
    table = QTableWidget(0, len(columns))
    table.setHorizontalHeaderLabels(list(columns))
    plain_table(table)
    table.setAccessibleName(name)
    sure(table.horizontalHeader()).setStretchLastSection(True)
    sure(table.horizontalHeader()).setSectionResizeMode(0, QHeaderView.ResizeMode.Interactive)
    return table


def _add_row(table: QTableWidget, cells: tuple[str, ...]) -> None:
    place = table.rowCount()
    table.insertRow(place)
    for at, text in enumerate(cells):
        table.setItem(place, at, QTableWidgetItem(text))
    while table.rowCount() > _KEEP:
        table.removeRow(0)
    table.scrollToBottom()


def _image(step: StepRecord) -> QImage | None:
    if step.frame:
        return QImage.fromData(step.frame)
    return draw_world(step_picture(step))


def _open(run_id: str, after: int, client: TrainerClient) -> Iterator[StepBatch]:
    return client.steps(run_id, after=after, follow=True)
