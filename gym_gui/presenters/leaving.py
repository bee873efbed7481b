"""What leaves the window: policies, pages, notebooks and data sets, written while it lives on.

Each is one command in a process of its own: exporters import torch and take seconds. The files are
written on this machine, also when the daemon is elsewhere; what is needed is fetched through it.
"""

import json
from collections.abc import Callable
from pathlib import Path

from qtpy.QtCore import QUrl
from qtpy.QtGui import QDesktopServices

from gym_gui.actions import rules
from gym_gui.actions.action import Action
from gym_gui.background.commands import run_command
from gym_gui.models import leaving
from gym_gui.models.notices import Notice
from gym_gui.models.train_draft import TrainDraft
from gym_gui.panels.dialogs import Dialogs
from gym_gui.services import Services
from mosaic.client import TrainerClient
from mosaic.config.json_types import JsonValue
from mosaic.config.model import TrainRunConfig
from mosaic.presenting.run_status import has_policy, has_recordings, is_real, title_of
from mosaic.records import RunRecord

Written = dict[str, JsonValue]


class Leaving:
    """Exports the run that is shown.

    Args:
        services: The window's shared parts.
        dialogs: Ask for files and names.
        load_config: Puts a configuration into the train form.
    """

    def __init__(
        self,
        services: Services,
        dialogs: Dialogs,
        load_config: Callable[[TrainRunConfig], None],
    ) -> None:
        self._services = services
        self._dialogs = dialogs
        self._load_config = load_config

    def actions(self) -> tuple[Action, ...]:
        """One for each form."""
        policy = rules.one_run(has_policy)
        return (
            Action(
                id="run.notebook",
                title="Open in notebook …",
                do=self.notebook,
                menu="Run",
                shortcut="Ctrl+Alt+N",
                icon="book",
                enabled=rules.one_run(is_real),
            ),
            Action(
                id="run.export_onnx",
                title="Export ONNX …",
                do=self.onnx,
                menu="Run",
                shortcut="Ctrl+Alt+O",
                icon="save",
                enabled=policy,
            ),
            Action(
                id="run.export_page",
                title="Play in browser …",
                do=self.page,
                menu="Run",
                shortcut="Ctrl+Alt+P",
                icon="save",
                enabled=policy,
            ),
            Action(
                id="run.export_minari",
                title="Export Minari data set …",
                do=self.minari,
                menu="Run",
                shortcut="Ctrl+Alt+M",
                icon="save",
                enabled=rules.one_run(has_recordings),
            ),
            Action(
                id="run.import_minari",
                title="Learn from a Minari data set …",
                do=self.learn_from,
                menu="Run",
                shortcut="Ctrl+Alt+I",
                icon="folder",
            ),
        )

    def notebook(self) -> None:
        """Write a notebook with the run loaded, and open it."""
        run = self._services.current_run()
        if run is None:
            return

        def write(path: Path) -> None:
            self._start(
                run,
                f"Writing {path.name} …",
                ["notebook", run.run_id, "-o", str(path), "--force"],
                lambda _said: self._offer(
                    f"{path.name} has {title_of(run)} loaded",
                    f"To open it in a terminal: jupyter lab {path}",
                    path,
                ),
                "No notebook",
            )

        name = leaving.proposed_file(run, ".ipynb")
        self._dialogs.save_as("Open in notebook", name, "Notebooks (*.ipynb)", write)

    def onnx(self) -> None:
        """Write the newest policy as an ONNX graph with a model card, checked."""
        run = self._services.current_run()
        if run is None:
            return

        def write(path: Path) -> None:
            self._start(
                run,
                f"Writing the policy of {title_of(run)} and playing episodes to check it …",
                ["export", run.run_id, "--onnx", "-o", str(path), "--json"],
                lambda said: self._offer(leaving.onnx_text(_read(said)), str(path), path),
                "Not exported",
            )

        name = leaving.proposed_file(run, ".onnx")
        self._dialogs.save_as("Export ONNX into a new folder", name, "Folders (*.onnx)", write)

    def page(self) -> None:
        """Write a page that plays the newest policy in a browser."""
        run = self._services.current_run()
        if run is None:
            return

        def write(path: Path) -> None:
            self._start(
                run,
                f"Writing {path.name} …",
                ["export", run.run_id, "--html", "-o", str(path), "--force", "--json"],
                lambda said: self._offer(leaving.page_text(_read(said)), str(path), path),
                "No page",
            )

        name = leaving.proposed_file(run, ".html")
        self._dialogs.save_as("Play in browser", name, "Pages (*.html)", write)

    def minari(self) -> None:
        """Write recorded episodes, or some that the policy plays now, as a data set."""
        run = self._services.current_run()
        if run is None:
            return

        def write(name: str) -> None:
            self._start(
                run,
                f"Writing the data set {name} …",
                ["export", run.run_id, "--minari", name, "--json"],
                lambda said: self._exported(run, _read(said)),
                "No data set",
            )

        self._dialogs.ask_text(
            "Export Minari data set",
            "Name of the data set, with a version at its end:",
            leaving.proposed_dataset(run),
            write,
        )

    def learn_from(self) -> None:
        """Put behaviour cloning of a data set into the train form."""
        run = self._services.current_run()
        env_id = run.env_id if run is not None and run.env_id else TrainDraft().env_id
        self._dialogs.ask_text(
            "Learn from a Minari data set",
            "Name of a data set on the daemon's machine, or its folder there:",
            "",
            lambda name: self._clone(env_id, name),
        )

    def _exported(self, run: RunRecord, done: Written) -> None:
        name = str(done["id"])
        self._services.notices.say(
            Notice(
                "success",
                leaving.minari_text(done),
                f"In {done['path']}. Steps of a person are marked in infos['person'].",
                "Learn from it",
                lambda: self._clone(run.env_id, name),
            )
        )

    def _clone(self, env_id: str, name: str) -> None:
        draft = TrainDraft(algo="bc", env_id=env_id, params={"dataset": name})
        self._load_config(draft.config(draft.seed))

    def _start(
        self,
        run: RunRecord,
        doing: str,
        words: list[str],
        done: Callable[[str], object],
        otherwise: str,
    ) -> None:
        services = self._services

        def work(client: TrainerClient) -> str:
            return run_command(client, *words)

        services.notices.info(doing)
        services.link_of(run.run_id).ask(
            work, done, lambda error: services.notices.error(otherwise, error)
        )

    def _offer(self, text: str, detail: str, path: Path) -> None:
        address = QUrl.fromLocalFile(str(path))
        self._services.notices.say(
            Notice("success", text, detail, "Open", lambda: QDesktopServices.openUrl(address))
        )


def _read(said: str) -> Written:
    document: Written = json.loads(said)
    return document
