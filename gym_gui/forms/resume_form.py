"""Continue training: a new run that starts from another run's checkpoint."""

from collections.abc import Mapping

from qtpy.QtWidgets import QLineEdit

from gym_gui.forms.base import (
    NumberLine,
    WorkerForm,
    form_layout,
    refusal,
    texts_of,
    type_texts,
)
from gym_gui.forms.run_source import RunSource
from gym_gui.models.actors import Actor
from gym_gui.models.launch import Launch
from gym_gui.services import Services
from gym_gui.widgets.controls import button
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, row
from gym_gui.widgets.messages import Banner
from mosaic.config import build
from mosaic.errors import InvalidConfigError, Problem
from mosaic.records import RunRecord

_FILE_FACTS = (
    "The file says which algorithm, environment and settings it was trained with. "
    "A policy alone (*.cleanrl_model) gives its weights; all else starts fresh."
)


class ResumeForm(WorkerForm):
    """Continues a run with its earlier settings, except for those that are changed here."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self._worker = ""
        self.source = RunSource(services, "full", "Checkpoints (*.state *.cleanrl_model)")
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
            "so training continues as if it had never stopped.",
            "muted",
            wrap=True,
        )
        self.start = button("Continue training", self.submit, "primary")
        self.setLayout(
            column(
                label("Continue from", "section"),
                self.source,
                self._facts,
                label("Change", "section"),
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
        self.steps.textChanged.connect(lambda _text: self._check())

    def set_actor(self, actor: Actor) -> None:
        self._worker = actor.worker_type
        self.source.set_worker(actor.worker_type)
        self._on_source()

    def restore(self, content: Mapping[str, object]) -> None:
        if content.get("run_id"):
            self.source.choose(str(content["run_id"]))
        self.source.file.setText(str(content.get("file") or ""))
        type_texts(content.get("typed"), self.steps, self.name)

    def content(self) -> dict[str, object]:
        return {
            "run_id": self.source.run_id,
            "file": self.source.file.text(),
            "typed": texts_of(self.steps, self.name),
        }

    def submit(self) -> None:
        run, problem = self.source.run, self._problem()
        if problem:
            self.banner.say("danger", problem)
        elif self.source.own_file:
            self._send_file()
        elif run is not None:
            # Asked now, not when the run was chosen: the form should not wait for each choice.
            self._services.link_of(run.run_id).ask(
                lambda client: client.config(run.run_id),
                lambda before: self._send(before, run),
                lambda error: self.banner.say(
                    "danger", f"The run's config cannot be read: {error}"
                ),
            )

    def show_refusal(self, problems: list[Problem]) -> None:
        self.banner.say("danger", refusal(problems))

    def _send_file(self) -> None:
        """Continue from a file alone, whatever run is still chosen above it."""
        steps = self.steps.value()
        try:
            config = build.resume_file(
                build.Worker(self._worker),
                self.source.path(),
                total_timesteps=None if steps is None else int(steps),
                wishes=build.Wishes(name=self.name.text().strip()),
            )
        except InvalidConfigError as error:
            self.show_refusal(list(error.problems))
            return
        self.banner.say("info", "")
        self.submitted.emit([Launch(config, "")])

    def _send(self, before: Mapping[str, object], run: RunRecord) -> None:
        steps = self.steps.value()
        try:
            config = build.resume(
                build.read_config(before),
                run,
                checkpoint=self.source.path(),
                total_timesteps=None if steps is None else int(steps),
                name=self.name.text().strip(),
            )
        except InvalidConfigError as error:
            self.show_refusal(list(error.problems))
            return
        self.banner.say("info", "")
        self.submitted.emit([Launch(config, run.run_id)])

    def _on_source(self) -> None:
        run = self.source.run
        if self.source.own_file:
            self._facts.setText(_FILE_FACTS)
        elif run is None:
            self._facts.setText("")
        else:
            progress = run.progress
            self._facts.setText(
                f"{run.algo} in {run.env_id}: {progress.step:,} of "
                f"{progress.total:,} steps done. To train longer, give a larger total."
            )
            if progress.total and progress.step >= progress.total and not self.steps.text():
                # A run that is through cannot continue with the total it had.
                self.steps.setText(str(2 * progress.total))
        self._check()
        self.edited.emit()

    def _problem(self) -> str:
        """Why training cannot continue like this; empty if it can."""
        run = self.source.run
        if self.steps.problem:
            return self.steps.problem
        if self.source.own_file:
            return ""
        if run is None:
            return "Choose a run to continue from, or a file of your own."
        total = self.steps.value() or run.progress.total
        if total and run.completed and total <= run.progress.step:
            return f"Step {run.progress.step:,} is done already; give a larger total."
        return ""

    def _check(self) -> None:
        problem = self._problem()
        self.start.setEnabled(not problem)
        self.start.setToolTip(problem)
        chosen = self.source.run is not None or self.source.own_file
        self.banner.say("warning", problem if chosen else "")
