"""TensorBoard for one run: a real server, started when the tab opens."""

from collections.abc import Callable

from qtpy.QtCore import QTimer

from gym_gui.background.run_reading import read_artifacts
from gym_gui.background.tensorboard import TensorBoardServer
from gym_gui.models.artifacts import Artifacts
from gym_gui.services import Services
from gym_gui.tabs.base import RunTab
from gym_gui.widgets.layouts import column
from gym_gui.widgets.web_view import WebView
from mosaic.client import TrainerClient

# As often as TensorBoard itself looks for news.
_FOLLOW_MS = 5000


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
        self._following = False
        self._timer = QTimer(self)
        self._timer.setInterval(_FOLLOW_MS)
        self._timer.timeout.connect(self._follow)
        self.setLayout(column(self.web, margin=10))

    def on_open(self) -> None:
        self.server.in_use(True)
        if self.server.running:
            self._timer.start()
            return
        self.web.say("Looking for event files", "TensorBoard starts as soon as there are some.")
        self._look()

    def on_news(self) -> None:
        # One question at a time: a run that trains brings news every second.
        if self.active and not self.server.running and not self._asked:
            self._look()

    def on_close(self) -> None:
        self.server.in_use(False)
        self._timer.stop()

    def on_other_run(self) -> None:
        self.server.stop()
        self._timer.stop()
        self.web.close_page()
        self._asked = ""

    def shut(self) -> None:
        self.on_other_run()
        self.server.wait()

    def _look(self) -> None:
        if self.run is None:
            return
        self._asked = self.run_id
        self.services.link.ask(self._fetch(self.run_id), self._on_fetched, self._on_error)

    def _fetch(self, run_id: str) -> Callable[[TrainerClient], tuple[Artifacts, str]]:
        """Copy the run's event files; TensorBoard needs a folder on this machine."""
        cache = self.services.cache

        def fetch(client: TrainerClient) -> tuple[Artifacts, str]:
            artifacts = read_artifacts(client, run_id)
            if not artifacts.events:
                return artifacts, ""
            return artifacts, str(cache.follow(client, run_id, list(artifacts.events)))

        return fetch

    def _on_fetched(self, found: tuple[Artifacts, str]) -> None:
        asked, self._asked = self._asked, ""
        if asked != self.run_id or not self.active:
            return
        artifacts, folder = found
        if not artifacts.events:
            reason = artifacts.problem or "The run has written no TensorBoard files so far."
            self.web.say("Not available yet", reason)
            return
        count = len(artifacts.events)
        noun = "event file" if count == 1 else "event files"
        self.web.say("Starting TensorBoard …", f"Reading {count} {noun}")
        self.server.start(folder)
        self._timer.start()

    def _on_error(self, error: Exception) -> None:
        self._asked = ""
        self.web.say("Not available yet", str(error))

    def _follow(self) -> None:
        """Fetch what the event files have grown by; TensorBoard reads it by itself."""
        if self.run is None or not self.server.running or self._following:
            return
        if self.run.ended:
            self._timer.stop()  # this is the last look: nothing is written any more
        # One fetch at a time: a slow connection must not collect them.
        self._following = True
        self.services.link.ask(
            self._fetch(self.run_id), lambda _found: self._rest(), lambda _error: self._rest()
        )

    def _rest(self) -> None:
        self._following = False

    def _on_ready(self, address: str) -> None:
        if self.run is not None:
            self.web.show_address(address)

    def _on_failed(self, reason: str) -> None:
        self.web.say("TensorBoard did not start", reason)

    def _on_stopped(self) -> None:
        self.web.close_page()
        self.web.say("TensorBoard was stopped", "It was not used. Open the tab again to start it.")
