"""The agent at work: FastLane frames with their numbers, for runs of either lane."""

import math
from pathlib import Path

from qtpy.QtGui import QImage
from qtpy.QtWidgets import QFileDialog, QPushButton

from gym_gui.background.frame_source import FrameSource
from gym_gui.services import Services
from gym_gui.tabs.base import RunTab
from gym_gui.widgets.controls import button
from gym_gui.widgets.frame_view import FrameView
from gym_gui.widgets.headline_charts import HeadlineCharts
from gym_gui.widgets.labels import ElidedLabel
from gym_gui.widgets.layouts import column, row
from gym_gui.widgets.messages import Banner
from mosaic.fastlane.frame import FrameMetrics
from mosaic.presenting import formatting
from mosaic.presenting.run_status import can_be_joined

ANALYTICS_BANNER = (
    "CleanRL worker streams metrics via TensorBoard/W&B; live telemetry not available."
)


class LiveTab(RunTab):
    """Shows frames while the tab is open, and only then: rendering costs the run time."""

    title = "Live"
    icon = "eye"

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self.banner = Banner()
        self.view = FrameView(services.themes)
        self.frames_shown = 0
        self._about_lane = ""
        self.feed: FrameSource | None = None
        self._headline = ElidedLabel("", "section")
        self.pause = QPushButton("Pause view")
        self.pause.setCheckable(True)
        self.pause.setToolTip("Keep this frame on screen; the run continues")
        self.pause.toggled.connect(self._on_pause)
        self.save = button("Save frame …", self._choose_file)
        self.save.setEnabled(False)
        self.take_over = button(
            "Watch and take over",
            lambda: self.action_wanted.emit("run.take_over"),
            tip="Play with the newest policy of this run, in an environment of its own. "
            "This run continues by itself: it neither learns from you nor counts your steps",
        )
        # Elided: a number that grows must not widen the whole panel, which would be cut then.
        bar = row(self._headline, self.take_over, self.pause, self.save, stretch={0: 1})
        self.headline_charts = HeadlineCharts(services.themes, services.clock)
        middle = row(self.view, self.headline_charts)
        middle.setStretch(0, 5)
        middle.setStretch(1, 2)
        self.setLayout(column(self.banner, middle, bar, margin=10, stretch={1: 1}))
        services.feeds.grown.connect(self._on_grown)

    def set_lane(self, analytics: bool) -> None:
        self._about_lane = ANALYTICS_BANNER if analytics else ""
        self._show_lane()

    def _show_lane(self) -> None:
        """Above a live picture the sentence would contradict what everyone sees."""
        self.banner.say("info", "" if self.frames_shown else self._about_lane)

    def on_other_run(self) -> None:
        self.view.clear("")
        self.save.setEnabled(False)
        self.frames_shown = 0
        self._show_lane()
        self.headline_charts.show_curves({}, 0.0)

    def on_open(self) -> None:
        self.services.feeds.take(self.run_id)
        self._on_grown(self.run_id, set())
        self._watch()

    def on_close(self) -> None:
        self.services.feeds.give_back(self.run_id)
        self._look_away()

    def _watch(self) -> None:
        if self.run is None or self.run.ended:
            return
        self.view.say("Waiting for the first frame …")
        settings = self.services.settings
        self.feed = FrameSource(
            self.link,
            self.run_id,
            settings.frame_hz,
            settings.frame_source,
        )
        self.feed.frame.connect(self._on_frame)
        self.feed.status.connect(self._on_status)
        self.feed.start()

    def _look_away(self) -> None:
        if self.feed is not None:
            self.feed.stop()
            # Not at once: a frame that is already queued still names this object.
            self.feed.deleteLater()
            self.feed = None

    def on_news(self) -> None:
        run = self.run
        if run is None:
            return
        self.take_over.setEnabled(can_be_joined(run))
        values = run.metrics
        parts = [
            f"return {formatting.number(values.get('episodic_return'))}",
            f"{formatting.number(round(run.progress.sps))} steps/s",
            f"step {run.progress.step:,}",
        ]
        self._headline.set_full("   ".join(parts))
        if run.ended:
            self._look_away()
            self.view.say(
                "The run has ended. Captured videos and recorded episodes are in the Replay tab."
            )
        elif self.feed is None and self.active:
            self._watch()

    def save_frame(self, path: Path) -> bool:
        """Write the frame on screen as a picture."""
        return bool(self.view.image is not None and self.view.image.save(str(path)))

    def _on_grown(self, run_id: str, _tags: set[str]) -> None:
        if self.active and run_id == self.run_id:
            curves = self.services.feeds.curves(run_id)
            self.headline_charts.show_curves(curves, self.services.settings.smoothing)

    def _on_frame(self, image: QImage, frame: FrameMetrics) -> None:
        if self.pause.isChecked():
            return
        self.frames_shown += 1
        self._show_lane()
        self.save.setEnabled(True)
        self.view.say("")
        self.view.show_image(image, _numbers(frame))

    def _on_status(self, alive: bool, notice: str) -> None:
        if notice:
            self.view.say(notice)
        elif not alive and self.view.image is None:
            self.view.say(
                "Waiting for frames. They start when the run renders; "
                "a run with the live view off has none."
            )

    def _on_pause(self, paused: bool) -> None:
        self.pause.setText("Continue view" if paused else "Pause view")

    def _choose_file(self) -> None:
        dialog = QFileDialog(self, "Save frame", f"{self.run_id}.png", "Pictures (*.png)")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.fileSelected.connect(lambda path: self.save_frame(Path(path)))
        dialog.open()


def _numbers(frame: FrameMetrics) -> str:
    parts = [f"reward {formatting.number(frame.last_reward)}"]
    if not math.isnan(frame.rolling_return):
        parts.append(f"rolling return {formatting.number(frame.rolling_return)}")
    parts.append(f"{frame.step_rate_hz:,.0f} steps/s")
    if frame.capped:
        parts.append("frame rate limited")
    return "    ".join(parts)
