"""Reports of the selected runs: asked for, written beside everything else, opened."""

from collections.abc import Sequence
from pathlib import Path

from qtpy.QtCore import QUrl
from qtpy.QtGui import QDesktopServices

from gym_gui.actions import rules
from gym_gui.actions.action import Action
from gym_gui.background.commands import run_command
from gym_gui.background.daemon_link import DaemonLink
from gym_gui.models.notices import Notice
from gym_gui.models.report_words import proposed_file, report_words
from gym_gui.panels.dialogs import Dialogs
from gym_gui.services import Services
from mosaic.client import TrainerClient
from mosaic.errors import InvalidArgumentError
from mosaic.presenting.run_status import is_real


class Reports:
    """Writes `mosaic report` of what is selected."""

    def __init__(self, services: Services, dialogs: Dialogs) -> None:
        self._services = services
        self._dialogs = dialogs

    def actions(self) -> tuple[Action, ...]:
        """One: the report."""
        return (
            Action(
                id="analyse.report",
                title="Report …",
                do=self.ask,
                menu="Analyse",
                shortcut="Ctrl+Alt+R",
                icon="save",
                enabled=rules.any_run(is_real),
            ),
        )

    def ask(self) -> None:
        """Ask where the report of the selected runs is written."""
        runs = [run for run in self._services.selected_runs() if is_real(run)]
        try:
            link = self._services.daemons.shared([run.run_id for run in runs])
        except InvalidArgumentError as error:
            self._services.notices.error("No report", error)
            return
        words = report_words(runs, self._services.store.runs.values())
        self._dialogs.save_report(
            proposed_file(words), lambda path, pdf: self.write(link, words, path, pdf)
        )

    def write(self, link: DaemonLink, words: Sequence[str], path: Path, pdf: bool) -> None:
        """Write a report of a daemon's runs without waiting for it."""
        services = self._services
        command = ["report", *words, "-o", str(path), *(["--pdf"] if pdf else [])]

        def work(client: TrainerClient) -> Path:
            run_command(client, *command)
            return path

        services.notices.info(f"Writing {path.name} …")
        link.ask(
            work,
            self._written,
            lambda error: services.notices.error("No report", error),
        )

    def _written(self, page: Path) -> None:
        address = QUrl.fromLocalFile(str(page))
        self._services.notices.say(
            Notice(
                "success",
                f"The report is in {page.name}",
                str(page),
                "Open",
                lambda: QDesktopServices.openUrl(address),
            )
        )
