"""The train form: two columns, made from each algorithm's own arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qtpy.QtCore import Qt
from qtpy.QtGui import QGuiApplication
from qtpy.QtWidgets import (
    QLineEdit,
    QMenu,
    QPushButton,
    QSplitter,
    QTabWidget,
    QTextBrowser,
    QWidget,
)

from gym_gui.algo_docs import library
from gym_gui.background.probes import probe_wandb
from gym_gui.forms.base import NumberLine, WorkerForm, form_layout
from gym_gui.forms.notes_panel import NotesPanel
from gym_gui.forms.option_sections import (
    ExtrasSection,
    MachineSection,
    Section,
    ViewSection,
    WandbSection,
)
from gym_gui.forms.parameters import ParameterList
from gym_gui.models import environments as env_lists
from gym_gui.models.actors import Actor
from gym_gui.models.requirement_sets import all_sets, needed
from gym_gui.models.train_draft import TrainDraft
from gym_gui.services import Services
from gym_gui.widgets.basics import Banner, button, column, label, row, scrolled
from gym_gui.widgets.picker import Picker


class CleanRlTrainForm(WorkerForm):
    """Trains any algorithm of a worker whose algorithms describe themselves."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self._actor: Actor | None = None
        self._description: dict[str, Any] = {}
        self._described = ""
        self._environments: list[Mapping[str, str]] = []
        self._waiting_params: dict[str, Any] | None = None
        self._filling = False
        self._other_extras: dict[str, Any] = {}
        self._tags: list[str] = []
        self._make_fields()
        self._sections: list[Section] = [self.machine, self.view, self.wandb, self.extras]
        self.banner = Banner()
        split = QSplitter(Qt.Orientation.Horizontal)
        split.addWidget(scrolled(self._left()))
        split.addWidget(self._right())
        split.setStretchFactor(0, 1)
        split.setStretchFactor(1, 1)
        split.setChildrenCollapsible(False)
        self.setLayout(column(self.banner, split, self._buttons(), margin=8, spacing=8))
        self.layout().setStretch(1, 1)
        self._connect()
        self._services.link.calls.run(all_sets, self.extras.set_sets)

    # ------------------------------------------------------------ building

    def _make_fields(self) -> None:
        self.algo = Picker("algorithm")
        self.env = Picker("environment")
        self.name = QLineEdit()
        self.name.setPlaceholderText("named after algorithm and environment")
        self.name.setAccessibleName("Run name")
        self.name.setMaxLength(150)
        self.steps = NumberLine("Timesteps", None, optional=True)
        self.seed = NumberLine("Seed", 1, 0, 2**32 - 1)
        self.seeds = NumberLine("Number of seeds", 1, 1, 100)
        self.parameters = ParameterList()
        self.help = QTextBrowser()
        self.help.setOpenExternalLinks(True)
        self.help.setAccessibleName("About the algorithm")
        self.notes = NotesPanel()
        self.machine, self.view = MachineSection(), ViewSection()
        self.wandb, self.extras = WandbSection(), ExtrasSection()
        self._recommended = label("", "muted", wrap=True)

    def _left(self) -> QWidget:
        form = form_layout()
        form.addRow("Algorithm", self.algo)
        form.addRow("Environment", self.env)
        form.addRow("Timesteps", column(self.steps, self.steps.error, self._recommended, spacing=2))
        seeds = row(self.seed, label("×"), self.seeds, label("seeds", "muted"))
        form.addRow("Seed", column(seeds, self.seed.error, self.seeds.error, spacing=2))
        form.addRow("Run name", self.name)
        host = QWidget()
        title = label("Hyperparameters", "section")
        host.setLayout(column(form, title, self.parameters, 1, margin=6, spacing=12))
        host.setMinimumWidth(330)
        return host

    def _right(self) -> QTabWidget:
        options = QWidget()
        options.setLayout(column(*self._option_sections(), 1, margin=6, spacing=10))
        self.tabs = QTabWidget()
        self.tabs.addTab(self.help, "About")
        self.tabs.addTab(scrolled(options), "Options")
        self.tabs.addTab(self.notes, "Notes")
        self.tabs.setMinimumWidth(330)
        return self.tabs

    def _option_sections(self) -> list[Section]:
        return [self.machine, self.view, self.wandb, self.extras]

    def _buttons(self) -> QWidget:
        self.train_button = button("Train", self.submit, "primary", "Submit (Ctrl+Return)")
        self.dry_button = button(
            "Dry run", self.dry_run, tip="Check everything, start nothing (Ctrl+Shift+D)"
        )
        copy = QPushButton("Copy as …")
        menu = QMenu(copy)
        for title, make in (
            ("Command", lambda: self.draft().as_command()),
            ("Python", lambda: self.draft().as_python()),
            ("JSON", lambda: self.draft().as_json()),
        ):
            menu.addAction(title).triggered.connect(
                lambda _checked=False, what=title, text=make: self._copy(what, text())
            )
        copy.setMenu(menu)
        bar = QWidget()
        reset = button("Reset", self._reset, tip="Everything back to the algorithm's defaults")
        bar.setLayout(row(reset, copy, 1, self.dry_button, self.train_button))
        return bar

    def _connect(self) -> None:
        self.algo.picked.connect(self._on_algo)
        self.env.picked.connect(self._on_env)
        for picker in (self.algo, self.env):
            picker.checked.connect(self._on_edit)
        for line in (self.name, self.steps, self.seed, self.seeds):
            line.textChanged.connect(self._on_edit)
        self.parameters.edited.connect(self._on_edit)
        self.notes.edited.connect(self._on_edit)
        for section in self._sections:
            section.edited.connect(self._on_edit)
        self.wandb.probe_wanted.connect(self._probe)
        self._services.link.pulse.connect(self._on_pulse)

    # ------------------------------------------------------------ the worker's word

    def set_actor(self, actor: Actor) -> None:
        self._actor = actor
        if actor.capabilities is None:
            return
        hooks, complain = self._services.hooks, self._complain
        hooks.algorithms(actor.capabilities, self._on_algorithms, complain)
        hooks.environments(actor.capabilities, self._on_environments, complain)

    def _on_algorithms(self, names: list[str]) -> None:
        self.algo.set_choices([("", sorted(names))])
        if not self.algo.text and names:
            self.algo.set_text("ppo" if "ppo" in names else sorted(names)[0])

    def _on_environments(self, found: list[Mapping[str, str]]) -> None:
        self._environments = found
        self._narrow_environments()

    def _on_algo(self, name: str) -> None:
        if self._actor is None or self._actor.capabilities is None or name == self._described:
            return
        self._services.hooks.describe(
            self._actor.capabilities,
            name,
            lambda description: self._on_description(name, description),
            self._complain,
        )

    def _on_description(self, name: str, description: dict[str, Any]) -> None:
        if name != self.algo.text:
            return
        self._described, self._description = name, description
        self.parameters.show_algorithm(description, library.parameters_that_matter(name))
        self.help.setHtml(library.help_html(name, description))
        default = _argument(description, "total_timesteps")
        self.steps.setPlaceholderText(f"{default:,}" if default else "")
        self._narrow_environments()
        if self._waiting_params is not None:
            unknown = self.parameters.set_values(self._waiting_params)
            self._waiting_params = None
            if unknown:
                self.banner.say("warning", f"{name} has no parameter {', '.join(unknown)}")
        self._on_edit()

    def _narrow_environments(self) -> None:
        if not self._environments:
            return
        fitting = env_lists.fitting(self._environments, self._description)
        self.env.set_choices(env_lists.by_family(fitting))
        if self.env.problem and not self._filling and self._description.get("default_env"):
            default = str(self._description["default_env"])
            if default in self.env.names:
                self.env.set_text(default)

    def _on_env(self, env_id: str) -> None:
        family = next((e["family"] for e in self._environments if e["id"] == env_id), "")
        self.extras.require(needed(self._description.get("requires") or (), family))
        steps = library.recommended_timesteps(self._described, _help_family(family, env_id))
        self._recommended.setText(f"About {steps:,} usually show a result here." if steps else "")
        self._recommended.setVisible(bool(steps))
        self._on_edit()

    # ------------------------------------------------------------ the draft

    def draft(self) -> TrainDraft:
        """What the form stands for; fields that are wrong keep their last valid meaning."""
        draft = TrainDraft(worker=self._actor.worker_type if self._actor else "cleanrl")
        draft.algo, draft.env_id = self.algo.text, self.env.text
        draft.run_name = self.name.text().strip()
        draft.other_extras, draft.tags = dict(self._other_extras), list(self._tags)
        if not self.problems():
            default = _argument(self._description, "total_timesteps")
            draft.total_timesteps = _whole(self.steps.value() or default)
            draft.seed = int(self.seed.value() or 0)
            draft.seeds = int(self.seeds.value() or 1)
            for section in self._sections:
                section.write(draft)
        draft.params = self.parameters.values()
        draft.notes = self.notes.notes.toPlainText().strip()
        return draft

    def load(self, draft: TrainDraft) -> None:
        """Show a draft."""
        self._filling = True
        self._waiting_params = dict(draft.params)
        self._other_extras, self._tags = dict(draft.other_extras), list(draft.tags)
        for section in self._sections:
            section.read(draft)
        self.name.setText(draft.run_name)
        self.steps.set_value(draft.total_timesteps)
        self.seed.set_value(draft.seed)
        self.seeds.set_value(draft.seeds)
        self.notes.notes.setPlainText(draft.notes)
        self.algo.set_text(draft.algo)
        self.env.set_text(draft.env_id)
        if self._described == draft.algo:
            self.parameters.set_values(draft.params)
            self._waiting_params = None
        self._filling = False
        self.banner.say("info", "")
        self._on_edit()

    def content(self) -> dict[str, Any]:
        return self.draft().to_json()

    def restore(self, content: Mapping[str, Any]) -> None:
        self.load(TrainDraft.from_json(content))

    def problems(self) -> list[str]:
        """Everything that is wrong with the form now."""
        found = [self.algo.problem, self.env.problem]
        found += [line.problem for line in (self.steps, self.seed, self.seeds)]
        found += self.parameters.problems
        for section in self._sections:
            found += section.problems
        return [problem for problem in found if problem]

    # ------------------------------------------------------------ doing

    def submit(self) -> None:
        problems = self.problems()
        if problems:
            self.banner.say("danger", "Not sent: " + "; ".join(problems))
            return
        self.banner.say("info", "")
        self.submitted.emit(self.draft().configs(), "")

    def dry_run(self) -> None:
        actor = self._actor
        if actor is None or actor.capabilities is None:
            return
        problems = self.problems()
        self.tabs.setCurrentWidget(self.notes)
        if problems:
            self.notes.add_result(False, "\n".join(problems))
            return
        draft = self.draft()
        self.dry_button.setEnabled(False)
        self.notes.begin(f"{draft.algo} in {draft.env_id}")
        self._services.hooks.dry_run(
            actor.capabilities, draft.config(draft.seed), self._on_dry_run, self._on_dry_run_error
        )

    def show_refusal(self, problems: list[Any]) -> None:
        lines = [f"{problem.pointer.rpartition('/')[2]}: {problem.message}" for problem in problems]
        for problem in problems:
            name = problem.pointer.rpartition("/")[2]
            editor = self.parameters.editor(name)
            if editor is not None:
                editor.set_visible(True)
        self.banner.say("danger", "The daemon refused this run:\n" + "\n".join(lines))

    def _on_dry_run(self, result: tuple[bool, str]) -> None:
        self.dry_button.setEnabled(True)
        self.notes.add_result(*result)

    def _on_dry_run_error(self, error: Exception) -> None:
        self.dry_button.setEnabled(True)
        self.notes.add_result(False, f"the dry run could not be made: {error}")

    def _copy(self, what: str, text: str) -> None:
        QGuiApplication.clipboard().setText(text)
        self._services.notices.info(f"Copied as {what}")

    def _reset(self) -> None:
        self.load(TrainDraft(algo=self.algo.text, env_id=self.env.text))

    def _probe(self, proxy: str) -> None:
        show = self.wandb.probe_result.setText
        self._services.link.calls.run(lambda: probe_wandb(proxy), show, lambda e: show(str(e)))

    def _on_pulse(self, beat: dict[str, Any]) -> None:
        self.machine.set_gpus(sum(slot["id"].startswith("gpu") for slot in beat["slots"]))

    def _on_edit(self) -> None:
        if self._filling:
            return
        count = int(self.seeds.value() or 1) if not self.seeds.problem else 1
        self.train_button.setText("Train" if count == 1 else f"Train {count} seeds")
        self.train_button.setEnabled(not self.problems())
        self.edited.emit()

    def _complain(self, error: Exception) -> None:
        self._services.notices.error("The worker could not be asked", error)


def _argument(description: Mapping[str, Any], name: str) -> Any:
    for argument in description.get("arguments", ()):
        if argument["name"] == name:
            return argument["default"]
    return None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _help_family(family: str, env_id: str) -> str:
    if family == "classic_control":
        continuous = env_id.startswith(("Pendulum", "MountainCarContinuous"))
        return "classic_continuous" if continuous else "classic"
    return {"babyai": "minigrid"}.get(family, family)
