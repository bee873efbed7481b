"""Tells the user when a run has ended: in the window, through the system, by a command."""

import shlex
import subprocess

from qtpy.QtCore import QObject
from qtpy.QtWidgets import QSystemTrayIcon, QWidget

from gym_gui.models.notices import Notice
from gym_gui.services import Services
from mosaic.experiments.summary import experiment_of, one
from mosaic.presenting.run_status import status_of, title_of
from mosaic.records import RunRecord

# A command that hangs must not keep one of the few threads for good.
_COMMAND_LIMIT_S = 30


class Notifier(QObject):
    """Watches for runs that end."""

    def __init__(self, services: Services, window: QWidget) -> None:
        super().__init__(window)
        self._services = services
        self._window = window
        self._tray: QSystemTrayIcon | None = None
        services.store.ended.connect(self._on_ended)

    def close(self) -> None:
        """Take the icon out of the system's tray."""
        if self._tray is not None:
            self._tray.hide()

    def _on_ended(self, run: RunRecord) -> None:
        mark = experiment_of(run.tags)
        if mark is not None:
            self._on_part_ended(*mark)
        else:
            self._tell(run)
        if self._services.settings.notify_command:
            self._run_command(run)

    def _on_part_ended(self, kind: str, name: str) -> None:
        """Of an experiment its end is news, once; thirty seeds are not thirty notices."""
        runs = [
            run
            for run in self._services.store.runs.values()
            if experiment_of(run.tags) == (kind, name)
        ]
        experiment = one(kind, name, runs)
        if not experiment.ended:
            return
        tone = "danger" if experiment.unsuccessful else "success"
        text = f"{kind.capitalize()} {name}: {experiment.completed} of {len(runs)} runs completed"
        self._services.notices.say(
            Notice(
                tone,
                text,
                "",
                "Show",
                lambda: self._services.selection.select(experiment.run_ids),
                experiment.run_ids[0],
            )
        )
        self._tell_system_too(text)

    def _tell(self, run: RunRecord) -> None:
        status = status_of(run)
        tone = {"success": "success", "danger": "danger"}.get(status.tone, "info")
        text = f"{title_of(run)}: {status.label.lower()}"
        self._services.notices.say(
            Notice(
                tone,
                text,
                run.reason or "",
                "Show",
                lambda: self._services.selection.select((run.run_id,)),
                run.run_id,
            )
        )
        self._tell_system_too(text)

    def _tell_system_too(self, text: str) -> None:
        # Someone who works in the window sees the notice there.
        if self._services.settings.notify_system and not self._window.isActiveWindow():
            self._tell_system(text)

    def _tell_system(self, text: str) -> None:
        if not QSystemTrayIcon.isSystemTrayAvailable():
            return
        if self._tray is None:
            self._tray = QSystemTrayIcon(self._services.themes.icon("robot", "accent"), self)
        self._tray.show()
        self._tray.showMessage("MOSAIC", text)

    def _run_command(self, run: RunRecord) -> None:
        words = shlex.split(self._services.settings.notify_command)
        words += [run.run_id, title_of(run), run.outcome or ""]

        def work() -> None:
            subprocess.run(words, timeout=_COMMAND_LIMIT_S, check=True, capture_output=True)

        self._services.calls.run(
            work,
            None,
            lambda error: self._services.notices.error("The command for ended runs failed", error),
        )
