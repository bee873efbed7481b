"""A form for any worker: its config as JSON, checked by the daemon before it is sent."""

import json
from collections.abc import Mapping

from qtpy.QtGui import QFontDatabase
from qtpy.QtWidgets import QPlainTextEdit

from gym_gui.forms.base import WorkerForm
from gym_gui.models.actors import Actor
from gym_gui.models.launch import Launch
from gym_gui.models.stored import fields
from gym_gui.services import Services
from gym_gui.widgets.controls import button
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, row
from gym_gui.widgets.messages import Banner
from mosaic.config import build
from mosaic.config.model import TrainRunConfig
from mosaic.errors import InvalidConfigError, Problem


class GenericForm(WorkerForm):
    """Submits what is typed to a worker that has no form of its own."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self._actor: Actor | None = None
        self.text = QPlainTextEdit()
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.text.setAccessibleName("Config of the worker as JSON")
        self.text.setTabChangesFocus(True)
        self.text.textChanged.connect(self.edited)
        self.banner = Banner()
        check = button("Check", self.dry_run, tip="Ask the daemon what is wrong, start nothing")
        start = button("Start", self.submit, "primary", "Submit (Ctrl+Return)")
        self.setLayout(
            column(
                label("Config", "section"),
                self.text,
                self.banner,
                row(1, check, start),
                margin=8,
            )
        )

    def set_actor(self, actor: Actor) -> None:
        self._actor = actor
        if not self.text.toPlainText().strip():
            self.text.setPlainText(_start_text(actor))

    def config(self) -> TrainRunConfig:
        """The config as typed: a whole job, or the worker's own fields.

        Raises:
            ValueError: It is no JSON object.
            InvalidConfigError: With every problem.
        """
        typed = json.loads(self.text.toPlainText())
        if not isinstance(typed, dict):
            raise ValueError("a config is a JSON object")
        if "metadata" in typed:
            return build.read_config(typed)
        worker = self._actor.worker_type if self._actor else ""
        return build.any_worker(build.Worker(worker), typed)

    def submit(self) -> None:
        config = self._checked()
        if config is not None:
            self.submitted.emit([Launch(config)])

    def dry_run(self) -> None:
        config = self._checked()
        if config is not None:
            self._services.link.ask(
                lambda client: client.validate(config), self._on_checked, self._failed
            )

    def _checked(self) -> TrainRunConfig | None:
        """The config, or None after the banner has said what is wrong with it."""
        try:
            return self.config()
        except InvalidConfigError as error:
            self._on_checked(list(error.problems))
        except ValueError as error:
            self.banner.say("danger", f"This is not valid JSON: {error}")
        return None

    def show_refusal(self, problems: list[Problem]) -> None:
        self._on_checked(problems)

    def content(self) -> dict[str, object]:
        return {"text": self.text.toPlainText()}

    def restore(self, content: Mapping[str, object]) -> None:
        self.text.setPlainText(str(content.get("text") or ""))

    def _on_checked(self, problems: list[Problem]) -> None:
        if problems:
            self.banner.say("danger", "\n".join(map(str, problems)))
        else:
            self.banner.say("success", "The daemon would accept this config.")

    def _failed(self, error: Exception) -> None:
        self.banner.say("danger", str(error))


def _start_text(actor: Actor) -> str:
    """What the worker checks itself with, or an empty object to begin with."""
    given = actor.capabilities.check_config if actor.capabilities else ""
    example = fields(json.loads(given or "{}"))
    return json.dumps(example.get("short", example), indent=2)
