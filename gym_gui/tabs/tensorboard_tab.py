"""TensorBoard for one run: a real server, started when the tab opens."""

from pathlib import Path

from gym_gui.background.tensorboard import TensorBoardServer
from gym_gui.models.manifest import Manifest, read_manifest
from gym_gui.services import Services
from gym_gui.tabs.base import RunTab
from gym_gui.widgets.layouts import column
from gym_gui.widgets.web_view import WebView


class TensorBoardTab(RunTab):
    """The run's event files in TensorBoard itself."""

    title = "TensorBoard"
    icon = "chart"

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self.web = WebView()
        self.server = TensorBoardServer(services.settings.tensorboard_idle_minutes, self)
        self.server.ready.connect(self._on_ready)
        self.server.failed.connect(self._on_failed)
        self.server.stopped.connect(self._on_stopped)
        self._asked = ""
        self.setLayout(column(self.web, margin=10))

    def on_open(self) -> None:
        self.server.in_use(True)
        if self.server.running:
            return
        self.web.say("Looking for event files", "TensorBoard starts as soon as there are some.")
        self._look()

    def on_news(self) -> None:
        if self.active and not self.server.running and not self._asked:
            self._look()

    def on_close(self) -> None:
        self.server.in_use(False)

    def on_other_run(self) -> None:
        self.server.stop()
        self.web.close_page()
        self._asked = ""

    def shut(self) -> None:
        self.on_other_run()
        self.server.wait()

    def _look(self) -> None:
        if self.run is None:
            return
        folder, self._asked = Path(self.run["run_dir"]), self.run_id
        self.services.link.calls.run(lambda: read_manifest(folder), self._on_manifest)

    def _on_manifest(self, manifest: Manifest) -> None:
        asked, self._asked = self._asked, ""
        if asked != self.run_id or not self.active:
            return
        if manifest.tensorboard is None:
            reason = manifest.problem or "The run has written no TensorBoard files so far."
            self.web.say("Not available yet", reason)
            return
        self.web.say("Starting TensorBoard …", f"Reading {manifest.tensorboard.name}")
        self.server.start(str(manifest.tensorboard))

    def _on_ready(self, address: str) -> None:
        if self.run is not None:
            self.web.show_address(address)

    def _on_failed(self, reason: str) -> None:
        self.web.say("TensorBoard did not start", reason)

    def _on_stopped(self) -> None:
        self.web.close_page()
        self.web.say("TensorBoard was stopped", "Nobody looked at it. Open the tab to start it.")
