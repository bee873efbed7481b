"""What leaves the window: policies, pages, notebooks and data sets, written while it lives on.

Each is one command in a process of its own: exporters import torch and take seconds. The files are
written on this machine, also when the daemon is elsewhere; what is needed is fetched through it.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True)
class _Export:
    """One way out: the command behind it, and its words.

    Attributes:
        title: Of the dialog that asks where to.
        kinds: The dialog's filter; empty when it asks for a name instead of a file.
        ending: Of the proposed file.
        doing: What is said at once, made of the run and of where it goes.
        command: `mosaic`'s word for it.
        flags: Behind the run's id; the last one takes where it goes.
        refused: What is said before the reason when it fails.
        done: What is said in the end, made of the run, where it went and what the command said.
    """

    title: str
    doing: Callable[[RunRecord, str], str]
    flags: tuple[str, ...]
    refused: str
    done: Callable[[RunRecord, str, str], Notice]
    kinds: str = ""
    ending: str = ""
    command: str = "export"


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
        self._export(
            _Export(
                "Open in notebook",
                _writing_file,
                ("--force", "-o"),
                "No notebook",
                lambda run, target, _said: _offer(
                    f"{Path(target).name} has {title_of(run)} loaded",
                    f"To open it in a terminal: jupyter lab {target}",
                    target,
                ),
                "Notebooks (*.ipynb)",
                ".ipynb",
                "notebook",
            )
        )

    def onnx(self) -> None:
        """Write the newest policy as an ONNX graph with a model card, checked."""
        self._export(
            _Export(
                "Export ONNX into a new folder",
                lambda run, _target: (
                    f"Writing the policy of {title_of(run)} and playing episodes to check it …"
                ),
                ("--onnx", "--json", "-o"),
                "Not exported",
                lambda _run, target, said: _offer(leaving.onnx_text(_read(said)), target, target),
                "Folders (*.onnx)",
                ".onnx",
            )
        )

    def page(self) -> None:
        """Write a page that plays the newest policy in a browser."""
        self._export(
            _Export(
                "Play in browser",
                _writing_file,
                ("--html", "--force", "--json", "-o"),
                "No page",
                lambda _run, target, said: _offer(leaving.page_text(_read(said)), target, target),
                "Pages (*.html)",
                ".html",
            )
        )

    def minari(self) -> None:
        """Write recorded episodes, or some that the policy plays now, as a data set."""
        self._export(
            _Export(
                "Export Minari data set",
                lambda _run, target: f"Writing the data set {target} …",
                ("--json", "--minari"),
                "No data set",
                lambda run, _target, said: self._offer_learning(run, _read(said)),
            )
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

    def _offer_learning(self, run: RunRecord, done: Written) -> Notice:
        name = str(done["id"])
        return Notice(
            "success",
            leaving.minari_text(done),
            f"In {done['path']}. Steps of a person are marked in infos['person'].",
            "Learn from it",
            lambda: self._clone(run.env_id, name),
        )

    def _clone(self, env_id: str, name: str) -> None:
        draft = TrainDraft(algo="bc", env_id=env_id, params={"dataset": name})
        self._load_config(draft.config(draft.seed))

    def _export(self, export: _Export) -> None:
        """Ask where to, run the command for the run that is shown, and say what came of it."""
        services, run = self._services, self._services.current_run()
        if run is None:
            return

        def write(target: str) -> None:
            def work(client: TrainerClient) -> str:
                return run_command(client, export.command, run.run_id, *export.flags, target)

            services.notices.info(export.doing(run, target))
            services.link_of(run.run_id).ask(
                work,
                lambda said: services.notices.say(export.done(run, target, said)),
                lambda error: services.notices.error(export.refused, error),
            )

        if export.kinds:
            name = leaving.proposed_file(run, export.ending)
            self._dialogs.save_as(export.title, name, export.kinds, lambda path: write(str(path)))
        else:
            question = "Name of the data set, with a version at its end:"
            self._dialogs.ask_text(export.title, question, leaving.proposed_dataset(run), write)


def _writing_file(_run: RunRecord, target: str) -> str:
    return f"Writing {Path(target).name} …"


def _offer(text: str, detail: str, path: str) -> Notice:
    address = QUrl.fromLocalFile(path)
    return Notice("success", text, detail, "Open", lambda: QDesktopServices.openUrl(address))


def _read(said: str) -> Written:
    document: Written = json.loads(said)
    return document
