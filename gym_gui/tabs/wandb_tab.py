"""Weights and Biases for one run: the hosted page when online, what is on disk when not."""

from qtpy.QtCore import QTimer
from qtpy.QtGui import QGuiApplication
from qtpy.QtWidgets import QHeaderView, QTableWidget, QTableWidgetItem

from gym_gui.background.run_reading import read_wandb
from gym_gui.background.wandb_send import can_send, knows_a_key, send
from gym_gui.models.wandb_local import WandbSummary
from gym_gui.services import Services
from gym_gui.tabs.base import RunTab
from gym_gui.widgets.controls import ask_secret, button, plain_table
from gym_gui.widgets.layouts import column, row
from gym_gui.widgets.messages import Banner, EmptyState
from gym_gui.widgets.qt_types import sure
from gym_gui.widgets.web_view import WebView
from mosaic.presenting import formatting

# The folder appears once, and its summary when the run ends; neither is urgent.
_EVERY_MS = 2000


class WandbTab(RunTab):
    """Appears when the run's `wandb/run-*` does."""

    title = "W&B"
    icon = "external"

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self.banner = Banner()
        self.table = QTableWidget(0, 2)
        self.table.setHorizontalHeaderLabels(["What", "Value"])
        plain_table(self.table)
        self.table.setAlternatingRowColors(True)
        sure(self.table.horizontalHeader()).setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        self.table.setAccessibleName("W&B summary")
        self.web = WebView()
        self._empty = EmptyState("No W&B data yet", "The run's wandb folder has not appeared.")
        self._sync = ""
        self._copy = button("Copy the sync command", self._on_copy)
        self.send = button("Send to W&&B", self._on_send)
        self.load_page = button("Load the hosted page", self._on_load)
        self._url = self._proxy = ""
        self._summary: WandbSummary | None = None
        self._timer = QTimer(self)
        self._timer.setInterval(_EVERY_MS)
        self._timer.timeout.connect(self._read)
        bar = row(self.send, self._copy, self.load_page, 1)
        self.setLayout(column(self.banner, bar, self._empty, self.table, self.web, margin=10))
        self._show(None)

    def on_open(self) -> None:
        self._read()
        if self.run is not None and self.run.live:
            self._timer.start()

    def on_close(self) -> None:
        self._timer.stop()

    def on_other_run(self) -> None:
        self.web.close_page()
        self._show(None)

    def shut(self) -> None:
        self.web.close_page()

    def _read(self) -> None:
        if self.run is None:
            return
        run_id, folder = self.run_id, self.run.run_dir
        if self.run.ended:
            self._timer.stop()

        def take(summary: WandbSummary | None) -> None:
            # A page that is being looked at is not taken away for the sake of the same numbers.
            if run_id == self.run_id and summary != self._summary:
                self._show(summary)

        self.link.ask(
            lambda client: read_wandb(client, run_id, folder),
            take,
            lambda error: self._empty.say("No W&B data", str(error)),
        )

    def _show(self, summary: WandbSummary | None) -> None:
        self._summary = summary
        self._empty.setVisible(summary is None)
        self.table.setVisible(summary is not None)
        self.web.setVisible(False)
        self._sync = summary.sync_command if summary else ""
        self._url = summary.url if summary else ""
        self._proxy = summary.proxy if summary else ""
        self._copy.setVisible(bool(self._sync))
        # The files are on the daemon's machine; elsewhere only the command helps.
        here = bool(self._sync) and self.link.local and can_send()
        self.send.setVisible(here)
        self.load_page.setVisible(bool(self._url))
        self.banner.say("info", "")
        if summary is None:
            return
        if summary.mode == "offline":
            self.banner.say(
                "info",
                "Tracked offline. Below is what is on disk; to send it to W&B, run: "
                + formatting.tilde(self._sync),
            )
        elif not self._url:
            self.banner.say("info", "Tracked online, but the run does not say at which address.")
        self._fill([*summary.facts, *self._last_numbers()])

    def _last_numbers(self) -> list[tuple[str, str]]:
        """What the run itself reported last; W&B writes its own summary only when it is online."""
        values = self.run.metrics if self.run else {}
        return [(f"last {name}", formatting.number(values[name])) for name in sorted(values)]

    def _fill(self, facts: list[tuple[str, str]]) -> None:
        self.table.setRowCount(len(facts))
        for place, (name, value) in enumerate(facts):
            self.table.setItem(place, 0, QTableWidgetItem(name))
            self.table.setItem(place, 1, QTableWidgetItem(value))

    def _on_load(self) -> None:
        self.table.hide()
        self.web.show()
        self.web.show_address(self._url, self._proxy)

    def _on_send(self) -> None:
        if knows_a_key():
            self._send("")
        else:
            ask_secret(self, "Send to W&B", "API key of your W&B account", self._send)

    def _send(self, key: str) -> None:
        folder = self._sync.removeprefix("wandb sync ")
        self.send.setEnabled(False)
        self.banner.say("info", "Sending to W&B …")

        def settle(kind: str, text: str) -> None:
            self.send.setEnabled(True)
            self.banner.say(kind, text)

        self.services.calls.run(
            lambda: send(folder, key),
            lambda said: settle("info", said),
            lambda error: settle("warning", str(error)),
        )

    def _on_copy(self) -> None:
        sure(QGuiApplication.clipboard()).setText(self._sync)
        self.services.notices.info("Copied: wandb sync …")
