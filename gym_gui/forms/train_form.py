"""The train form: two columns, made from each algorithm's own arguments."""

from collections.abc import Mapping

from qtpy.QtWidgets import QLineEdit, QTabWidget, QTextBrowser, QWidget

from gym_gui.algo_docs import library
from gym_gui.background.daemon_link import DaemonLink
from gym_gui.background.wandb_probe import probe_wandb
from gym_gui.forms.base import NumberLine, WorkerForm, form_layout, refusal, type_texts
from gym_gui.forms.curriculum_section import CurriculumSection
from gym_gui.forms.experiment_section import ExperimentSection
from gym_gui.forms.extras_section import ExtrasSection
from gym_gui.forms.notes_panel import NotesPanel
from gym_gui.forms.option_sections import (
    IdsSection,
    MachineSection,
    Section,
    ViewSection,
    WandbSection,
)
from gym_gui.forms.parameters import ParameterList
from gym_gui.forms.script_choice import ScriptChoice
from gym_gui.forms.train_bar import TrainBar
from gym_gui.models.actors import Actor
from gym_gui.models.launch import Launch
from gym_gui.models.presets import Preset, shipped_presets
from gym_gui.models.stored import texts
from gym_gui.models.train_draft import TrainDraft
from gym_gui.services import Services
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, row, scrolled, tab_chain
from gym_gui.widgets.messages import Banner
from gym_gui.widgets.qt_types import sure
from gym_gui.widgets.quick_values import quick_values
from gym_gui.widgets.wrapping import FoldingSplitter
from mosaic.config.model import Parameters
from mosaic.errors import InvalidConfigError, Problem
from mosaic.presenting.formatting import split_tags
from mosaic.workers.facts import AlgorithmFacts

_USUAL_STEPS = tuple((text, text) for text in ("10k", "30k", "100k", "300k", "1M", "3M", "10M"))
_USUAL_SEEDS = tuple((text, text) for text in ("1", "3", "5", "10"))


class TrainForm(WorkerForm):
    """Trains any algorithm of a worker whose algorithms describe themselves."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self._waiting_params: Parameters | None = None
        self._waiting_texts: dict[str, str] = {}
        self._filling = False
        self._other_extras: Parameters = {}
        self._make_fields()
        self._sections = self._option_sections()
        self.banner = Banner()
        split = FoldingSplitter()
        split.addWidget(scrolled(self._left()))
        split.addWidget(self._right())
        split.setStretchFactor(0, 1)
        split.setStretchFactor(1, 1)
        split.setChildrenCollapsible(False)
        self.bar = TrainBar(services, self.draft, self._shipped)
        self.setLayout(column(self.banner, split, self.bar, margin=8, spacing=8, stretch={1: 1}))
        self._connect()
        self._chain()

    # ------------------------------------------------------------ building

    def _make_fields(self) -> None:
        self.choice = ScriptChoice(self._services, self)
        self.algo, self.env = self.choice.algo, self.choice.env
        self.name = QLineEdit()
        self.name.setPlaceholderText("named after algorithm and environment")
        self.name.setAccessibleName("Run name")
        self.name.setMaxLength(150)
        self.tags = QLineEdit()
        self.tags.setPlaceholderText("baseline, paper")
        self.tags.setAccessibleName("Tags")
        self.steps = NumberLine("Timesteps", None, optional=True)
        self.seed = NumberLine("Seed", 1, 0, 2**32 - 1)
        self.seeds = NumberLine("Number of seeds", 1, 1, 100)
        self.curriculum = CurriculumSection(self.choice)
        self.experiment = ExperimentSection(self._services, self.choice)
        self.vary = self.experiment.vary
        self.parameters = ParameterList()
        self.help = QTextBrowser()
        self.help.setOpenExternalLinks(True)
        self.help.setAccessibleName("About the algorithm")
        self.notes = NotesPanel()
        self.machine, self.view = MachineSection(), ViewSection()
        self.wandb, self.extras = WandbSection(), ExtrasSection(self._services)
        self.ids = IdsSection()
        self._recommended = label("", "muted", wrap=True)

    def _left(self) -> QWidget:
        form = self._top = form_layout()
        form.addRow("Algorithm", self.algo)
        form.addRow("Environment", self.env)
        form.addRow("Curriculum", self.curriculum.field())
        self.usual_steps = quick_values(self.steps, self._usual_steps)
        steps = row(self.steps, self.usual_steps, spacing=2)
        form.addRow("Timesteps", column(steps, self.steps.error, self._recommended, spacing=2))
        self.usual_seeds = quick_values(self.seeds, lambda: _USUAL_SEEDS)
        seeds = row(self.seed, label("×"), self.seeds, self.usual_seeds, label("seeds", "muted"))
        form.addRow("Seed", column(seeds, self.seed.error, self.seeds.error, spacing=2))
        form.addRow("Vary", self.experiment.field())
        form.addRow("Run name", self.name)
        form.addRow("Tags", self.tags)
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

    def _chain(self) -> None:
        """The Tab key goes as the eye does: down the left column, the tabs, the buttons."""
        stages = self.curriculum.tab_stops()
        top = (self.algo, self.env, *stages, self.steps, self.seed, self.seeds)
        several = self.experiment.tab_stops()
        left = [*top, *several, self.name, self.tags, *self.parameters.tab_stops()]
        tab_chain(*left, sure(self.tabs.tabBar()), self.help)
        tab_chain(*self.bar.tab_stops())

    def _option_sections(self) -> list[Section]:
        return [self.machine, self.view, self.wandb, self.extras, self.ids]

    def _connect(self) -> None:
        self.choice.described.connect(self._on_description)
        self.choice.env_picked.connect(self._on_env)
        self.choice.edited.connect(self._on_edit)
        self.curriculum.edited.connect(self._on_curriculum)
        self.curriculum.stages.rearranged.connect(self._chain)
        self.experiment.edited.connect(self._on_edit)
        for line in (self.name, self.tags, self.steps, self.seed, self.seeds):
            line.textChanged.connect(self._on_edit)
        self.parameters.edited.connect(self._on_edit)
        self.notes.edited.connect(self._on_edit)
        for section in self._sections:
            section.edited.connect(self._on_edit)
        self.bar.reset_wanted.connect(self.reset)
        self.bar.preset_chosen.connect(self.use_preset)
        self.bar.dry_run_wanted.connect(self.dry_run)
        self.bar.train_wanted.connect(self.submit)
        self.wandb.probe_wanted.connect(self._probe)
        self._services.daemons.pulse.connect(self._on_pulse)
        self._services.daemons.front_changed.connect(lambda: self._on_pulse(self._services.link))

    # ------------------------------------------------------------ the worker's word

    def set_actor(self, actor: Actor) -> None:
        self.choice.set_actor(actor)
        # What the worker would ignore is not offered; the daemon would refuse it.
        options = actor.capabilities.options if actor.capabilities else ()
        for box, part, option in (
            (self.wandb.track, self.wandb, "wandb"),
            (self.view.video, self.view.video, "video"),
        ):
            part.setVisible(option in options)
            if option not in options:
                box.setChecked(False)
        follows = "curriculum" in options
        self.curriculum.set_offered(follows)
        field = self.curriculum.field()
        for shown in (field, sure(self._top.labelForField(field))):
            shown.setVisible(follows)

    @property
    def described(self) -> str:
        """The algorithm whose fields are shown."""
        return self.choice.name

    def _on_description(self, name: str, description: AlgorithmFacts) -> None:
        self.parameters.show_algorithm(description, library.parameters_that_matter(name))
        self.help.setHtml(library.help_html(name, description))
        self._chain()
        default = self.choice.default_steps()
        self.steps.setPlaceholderText(f"{default:,}" if default else "")
        if self._waiting_params is not None:
            unknown = self.parameters.set_values(self._waiting_params)
            self._waiting_params = None
            if unknown:
                self.banner.say("warning", f"{name} has no parameter {', '.join(unknown)}")
        self._type_waiting()
        self._on_edit()

    def _on_curriculum(self) -> None:
        if not self._filling:
            self.extras.require(self.choice.requirements(self.curriculum.environments()))
        self._on_edit()

    def _on_env(self) -> None:
        self.extras.require(self.choice.requirements(self.curriculum.environments()))
        steps = self.choice.usual_steps()
        self._recommended.setText(f"About {steps:,} usually show a result here." if steps else "")
        self._recommended.setVisible(bool(steps))
        self._on_edit()

    # ------------------------------------------------------------ the draft

    def draft(self) -> TrainDraft:
        """What the form stands for; fields that are wrong keep their last valid meaning."""
        actor = self.choice.actor
        draft = TrainDraft(worker=actor.worker_type if actor else "cleanrl")
        draft.algo, draft.env_id = self.algo.text, self.env.text
        draft.run_name = self.name.text().strip()
        draft.other_extras, draft.tags = dict(self._other_extras), split_tags(self.tags.text())
        draft.total_timesteps = self.steps.whole(self.choice.default_steps())
        draft.seed = self.seed.whole(1)
        draft.seeds = self.seeds.whole(1)
        self.curriculum.write(draft)
        self.experiment.write(draft)
        for section in self._sections:
            section.write(draft)
        waiting = self._waiting_params
        draft.params = self.parameters.values() if waiting is None else dict(waiting)
        draft.notes = self.notes.notes.toPlainText().strip()
        return draft

    def load(self, draft: TrainDraft) -> None:
        """Show a draft."""
        # Each field that is set would check and store the half-filled form.
        self._filling = self.choice.keep_env = True
        self._waiting_params = dict(draft.params)
        self._other_extras = dict(draft.other_extras)
        self.tags.setText(", ".join(draft.tags))
        for section in self._sections:
            section.read(draft)
        self.name.setText(draft.run_name)
        self.steps.set_value(draft.total_timesteps)
        self.seed.set_value(draft.seed)
        self.seeds.set_value(draft.seeds)
        self.curriculum.read(draft)
        self.experiment.read(draft)
        self.notes.notes.setPlainText(draft.notes)
        self.algo.set_text(draft.algo)
        self.env.set_text(draft.env_id)
        if self.described == draft.algo:
            self.parameters.set_values(draft.params)
            self._waiting_params = None
        self._filling = self.choice.keep_env = False
        self.banner.say("info", "")
        self._on_edit()

    def content(self) -> dict[str, object]:
        document = {**self.draft().to_json(), "total_timesteps": self.steps.whole(None)}
        # What is wrong now may be half a number; it is kept as it was typed.
        wrong = {line.accessibleName(): line.text() for line in self._lines() if line.problem}
        return {
            **document,
            "typed": wrong,
            "typed_params": {**self._waiting_texts, **self.parameters.wrong_texts()},
        }

    def restore(self, content: Mapping[str, object]) -> None:
        self.load(TrainDraft.from_json(content))
        type_texts(content.get("typed"), *self._lines())
        self._waiting_texts = texts(content.get("typed_params"))
        self._type_waiting()

    def _lines(self) -> list[NumberLine]:
        return list(self.findChildren(NumberLine))

    def _type_waiting(self) -> None:
        """What was typed into parameters and is wrong, once the parameters are there."""
        if self.described == self.algo.text and self._waiting_params is None:
            texts, self._waiting_texts = self._waiting_texts, {}
            self.parameters.type_texts(texts)

    def problems(self) -> list[str]:
        """Everything that is wrong with the form now."""
        found = [self.algo.problem, self.env.problem]
        found += [line.problem for line in (self.steps, self.seed, self.seeds)]
        found += self.curriculum.problems
        found.append(self.experiment.problem)
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
        try:
            configs = self.experiment.configs(self.draft())
        except InvalidConfigError as error:
            self.show_refusal(list(error.problems))
            return
        self.banner.say("info", "")
        self.submitted.emit([Launch(config) for config in configs])

    def dry_run(self) -> None:
        actor = self.choice.actor
        if actor is None or actor.capabilities is None:
            return
        problems = self.problems()
        self.tabs.setCurrentWidget(self.notes)
        if problems:
            self.notes.add_result(False, "\n".join(problems))
            return
        draft = self.draft()
        try:
            config = draft.config(draft.seed)
        except InvalidConfigError as error:
            self.notes.add_result(False, str(error))
            return
        self.bar.dry.setEnabled(False)
        self.notes.begin(f"{draft.algo} in {draft.env_id}")
        self._services.hooks.dry_run(
            actor.capabilities, config.document(), self._on_dry_run, self._on_dry_run_error
        )

    def show_refusal(self, problems: list[Problem]) -> None:
        lines = [
            f"{problem.pointer.rpartition('/')[2]}: {problem.message} [{problem.code}]"
            for problem in problems
        ]
        for problem in problems:
            name = problem.pointer.rpartition("/")[2]
            editor = self.parameters.editor(name)
            if editor is not None:
                editor.set_visible(True)
        self.banner.say("danger", refusal(lines))

    def _on_dry_run(self, result: tuple[bool, str]) -> None:
        self.bar.dry.setEnabled(True)
        self.notes.add_result(*result)

    def _on_dry_run_error(self, error: Exception) -> None:
        self.bar.dry.setEnabled(True)
        self.notes.add_result(False, f"the dry run could not be made: {error}")

    def reset(self) -> None:
        """Everything back to the algorithm's defaults."""
        self.load(TrainDraft(algo=self.algo.text, env_id=self.env.text))

    def use_preset(self, preset: Preset) -> None:
        """Fill in what a preset says; the rest stays as it is."""
        try:
            self.load(preset.apply(self.draft()))
        except TypeError:
            self.banner.say("danger", f"The preset {preset.name!r} cannot be used any more")

    def _shipped(self) -> list[Preset]:
        return shipped_presets(self.choice.description, self.choice.usual_steps())

    def _usual_steps(self) -> list[tuple[str, str]]:
        usual = self.choice.usual_steps()
        known = [(f"{usual:,} (usual here)", str(usual))] if usual else []
        return [*known, *_USUAL_STEPS]

    def _probe(self, proxy: str) -> None:
        show = self.wandb.probe_result.setText
        self._services.calls.run(lambda: probe_wandb(proxy), show, lambda e: show(str(e)))

    def _on_pulse(self, link: DaemonLink) -> None:
        """Know the slots of the machine that the runs would go to."""
        pulse = link.newest
        if link is not self._services.link or pulse is None:
            return
        gpus = sum(slot.is_gpu for slot in pulse.resources.slots)
        self.experiment.set_slots(len(pulse.resources.slots) - gpus)
        self.machine.set_gpus(gpus)

    def _on_edit(self) -> None:
        if self._filling:
            return
        draft = self.draft()
        count = self.experiment.check(draft)
        several = f"Train {count} runs" if draft.several else f"Train {count} seeds"
        self.bar.train.setText("Train" if count == 1 else several)
        self.bar.train.setEnabled(not self.problems())
        self.edited.emit()
