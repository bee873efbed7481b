"""TensorBoard for one run, or for all that are selected: a real server, started on demand."""

from collections.abc import Callable

from qtpy.QtCore import QTimer

from gym_gui.background.run_reading import read_artifacts
from gym_gui.background.tensorboard import TensorBoardServer
from gym_gui.background.tensorboard_board import gather_board
from gym_gui.models.artifacts import Artifacts
from gym_gui.services import Services
from gym_gui.tabs.base import RunTab
from gym_gui.widgets.layouts import column
from gym_gui.widgets.web_view import WebView
from mosaic.client import TrainerClient

# As often as TensorBoard itself looks for news.
_FOLLOW_MS = 5000
# As many as colours can distinguish.
_MOST_RUNS = 24


class TensorBoardTab(RunTab):
    """The event files of the selected runs in TensorBoard itself."""

    title = "TensorBoard"
    icon = "chart"

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self.web = WebView()
        self.server = TensorBoardServer(services.settings.tensorboard_idle_minutes, self)
        self.server.ready.connect(self._on_ready)
        self.server.failed.connect(self._on_failed)
        self.server.stopped.connect(self._on_stopped)
        self._asked: tuple[str, ...] = ()
        self._served: tuple[str, ...] = ()
        self._following = False
        services.selection.changed.connect(self._on_selection)
        self._timer = QTimer(self)
        self._timer.setInterval(_FOLLOW_MS)
        self._timer.timeout.connect(self._follow)
        self.setLayout(column(self.web, margin=10))

    def on_open(self) -> None:
        self.server.in_use(True)
        if self.server.running and self._served != self._wanted():
            self.on_other_run()
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
        self._asked = self._served = ()

    def shut(self) -> None:
        self.on_other_run()
        self.server.wait()

    def _look(self) -> None:
        if self.run is None:
            return
        self._asked = self._wanted()
        self.link.ask(self._fetch(self._asked), self._on_fetched, self._on_error)

    def _wanted(self) -> tuple[str, ...]:
        """The runs to show: those that are selected together with this one, or it alone."""
        together = self.services.selection.ids
        # The files of one board come through one connection.
        here = [one for one in together if self.services.link_of(one) is self.link]
        chosen = tuple(here[:_MOST_RUNS])
        return chosen if self.run_id in chosen else (self.run_id,)

    def _on_selection(self) -> None:
        if self.active and self.run is not None and self.server.running:
            self.deactivate()
            self.activate()

    def _fetch(self, ids: tuple[str, ...]) -> Callable[[TrainerClient], tuple[Artifacts, str]]:
        """Copy the event files; TensorBoard needs a folder on this machine."""
        cache = self.services.cache
        known = [self.services.store.get(run_id) for run_id in ids]
        runs = [run for run in known if run is not None]

        def fetch(client: TrainerClient) -> tuple[Artifacts, str]:
            if len(ids) == 1:
                artifacts = read_artifacts(client, ids[0])
                if not artifacts.events:
                    return artifacts, ""
                return artifacts, str(cache.follow(client, ids[0], list(artifacts.events)))
            return gather_board(client, cache, runs)

        return fetch

    def _on_fetched(self, found: tuple[Artifacts, str]) -> None:
        asked, self._asked = self._asked, ()
        if not self.active or asked != self._wanted():
            return
        artifacts, folder = found
        if not artifacts.events:
            reason = artifacts.problem or "The run has written no TensorBoard files so far."
            self.web.say(self._missing(), reason)
            return
        count = len(artifacts.events)
        noun = "event file" if count == 1 else "event files"
        self.web.say("Starting TensorBoard …", f"Reading {count} {noun}")
        self._served = asked
        self.server.start(folder)
        self._timer.start()

    def _on_error(self, error: Exception) -> None:
        self._asked = ()
        self.web.say(self._missing(), str(error))

    def _missing(self) -> str:
        """A run that has ended will not write any more."""
        return "Not available yet" if self.run is not None and self.run.live else "Not available"

    def _follow(self) -> None:
        """Fetch what the event files have grown by; TensorBoard reads it by itself."""
        if self.run is None or not self.server.running or self._following:
            return
        known = [self.services.store.get(run_id) for run_id in self._served]
        if all(run is None or run.ended for run in known):
            self._timer.stop()  # this is the last look: nothing is written any more
        # One fetch at a time: a slow connection must not collect them.
        self._following = True
        self.link.ask(
            self._fetch(self._served), lambda _found: self._rest(), lambda _error: self._rest()
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
