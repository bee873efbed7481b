"""Continue training: a new run that goes on from another run's checkpoint."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from qtpy.QtWidgets import QLineEdit

from gym_gui.forms.base import NumberLine, WorkerForm, form_layout, texts_of, type_texts
from gym_gui.forms.run_source import RunSource
from gym_gui.models.actors import Actor
from gym_gui.services import Services
from gym_gui.widgets.basics import Banner, button, column, label, row


class CleanRlResumeForm(WorkerForm):
    """The settings of the run before, unless given anew."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self.source = RunSource(services, "full", "Full-state checkpoints (*.state)")
        self.steps = NumberLine("Total timesteps", None, optional=True, placeholder="as before")
        self.name = QLineEdit()
        self.name.setPlaceholderText("as before")
        self.name.setAccessibleName("Run name")
        self.banner = Banner()
        self._facts = label("", "muted", wrap=True)
        form = form_layout()
        form.addRow("Total timesteps", column(self.steps, self.steps.error, spacing=2))
        form.addRow("Run name", self.name)
        what = label(
            "Optimiser, counters, schedules, replay buffer and random generators are restored, "
            "so the run goes on as if it had never stopped.",
            "muted",
            wrap=True,
        )
        self.start = button("Continue training", self.submit, "primary")
        self.setLayout(
            column(
                label("Continue from", "section"),
                self.source,
                self._facts,
                label("Give anew", "section"),
                form,
                what,
                self.banner,
                1,
                row(1, self.start),
                margin=10,
                spacing=10,
            )
        )
        self.source.changed.connect(self._on_source)
        for line in (self.steps, self.name):
            line.textChanged.connect(lambda _text: self.edited.emit())

    def set_actor(self, actor: Actor) -> None:
        self.source.set_worker(actor.worker_type)
        self._on_source()

    def restore(self, content: Mapping[str, Any]) -> None:
        if content.get("run_id"):
            self.source.choose(str(content["run_id"]))
        self.source.file.setText(str(content.get("file") or ""))
        type_texts(content.get("typed"), self.steps, self.name)

    def content(self) -> dict[str, Any]:
        return {
            "run_id": self.source.run_id,
            "file": self.source.file.text(),
            "typed": texts_of(self.steps, self.name),
        }

    def submit(self) -> None:
        run = self.source.run
        if run is None or self.steps.problem:
            self.banner.say("danger", self.steps.problem or "Choose a run to continue from.")
            return
        self._services.link.ask(
            lambda client: client.config(run.run_id),
            lambda config: self._send(config, run.run_id),
            lambda error: self.banner.say("danger", f"The run's config cannot be read: {error}"),
        )

    def show_refusal(self, problems: list[Any]) -> None:
        self.banner.say("danger", "\n".join(map(str, problems)))

    def _send(self, before: dict[str, Any], parent: str) -> None:
        config = copy.deepcopy(before)
        fields = config["metadata"]["worker"]["config"]
        steps = self.steps.value()
        if steps is not None:
            fields["total_timesteps"] = int(steps)
        extras = fields.setdefault("extras", {})
        extras["mode"] = "resume_training"
        extras["checkpoint_path"] = self.source.path()
        (extras.get("algo_params") or {}).pop("stop_at", None)
        if self.name.text().strip():
            config["run_name"] = self.name.text().strip()
        self.banner.say("info", "")
        self.submitted.emit([config], parent)

    def _on_source(self) -> None:
        run = self.source.run
        self.start.setEnabled(run is not None)
        if run is None:
            self._facts.setText("")
        else:
            progress = run.progress
            self._facts.setText(
                f"{run.algo} in {run.env_id}: {progress.step:,} of "
                f"{progress.total:,} steps done. To train longer, give a larger total."
            )
        self.edited.emit()
