"""The sweep form: ranges around the script's own defaults, and how much to spend."""

import shlex
from collections.abc import Mapping
from functools import partial

from qtpy.QtCore import Signal
from qtpy.QtGui import QGuiApplication
from qtpy.QtWidgets import (
    QCheckBox,
    QFormLayout,
    QGridLayout,
    QLineEdit,
    QToolButton,
    QWidget,
)

from gym_gui.algo_docs import library
from gym_gui.background import sweep_driver
from gym_gui.forms.base import NumberLine, WorkerForm, form_layout, texts_of, type_texts
from gym_gui.forms.script_choice import ScriptChoice
from gym_gui.models.actors import Actor
from gym_gui.models.notices import Notice
from gym_gui.models.stored import items, texts
from gym_gui.models.sweep_draft import SweepDraft, rangeable, suggested_range
from gym_gui.services import Services
from gym_gui.widgets.controls import button
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import clear, column, row, scrolled
from gym_gui.widgets.messages import Banner
from gym_gui.widgets.qt_types import sure
from gym_gui.widgets.quick_values import quick_values
from mosaic.workers.facts import AlgorithmFacts

_STEPS = tuple((text, text) for text in ("10k", "30k", "100k", "300k", "1M"))
_TRIALS = tuple((text, text) for text in ("5", "10", "20", "50", "100"))
_SEEDS = tuple((text, text) for text in ("1", "2", "3", "5"))
_PARALLEL = tuple((text, text) for text in ("1", "2", "4", "8"))
_CONFIRMED = 3
# Parameters that are shown before all of them are asked for.
_FIRST = 8


class SweepForm(WorkerForm):
    """Starts `mosaic sweep` for any algorithm that describes its arguments."""

    begun = Signal(str)

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self.choice = ScriptChoice(services, self)
        self.algo, self.env = self.choice.algo, self.choice.env
        self.steps = NumberLine("Timesteps", None, optional=True)
        self.trials = NumberLine("Trials", 20, 1, 10_000)
        self.seeds = NumberLine("Seeds per trial", 1, 1, 100)
        self.parallel = NumberLine("Trials at the same time", 1, 1, 100)
        self.name = QLineEdit()
        self.name.setAccessibleName("Name")
        self.name.setPlaceholderText("named after algorithm and environment")
        self.race = QCheckBox("Race: stop at seeds of trials that fall behind")
        self.confirm = QCheckBox(f"Confirm the best {_CONFIRMED} with 5 fresh seeds")
        self.evaluate = QCheckBox("Judge by an evaluation of the final policy")
        self.ranges = RangeList()
        self.banner = Banner()
        self._budget = label("", "muted", wrap=True)
        self.start = button("Start the sweep", self.submit, "primary")
        self.copy = button("Copy as command", self._copy)
        host = QWidget()
        title = label("What is varied", "section")
        host.setLayout(column(self._fields(), title, self.ranges, 1, margin=6, spacing=12))
        bar = row(self._budget, 1, self.copy, self.start)
        self.setLayout(column(self.banner, scrolled(host), bar, margin=8, stretch={1: 1}))
        self._connect()
        self._on_edit()

    def _fields(self) -> QFormLayout:
        form = form_layout()
        form.addRow("Algorithm", self.algo)
        form.addRow("Environment", self.env)
        self.usual: dict[str, QToolButton] = {}
        for text, line, values in (
            ("Timesteps", self.steps, _STEPS),
            ("Trials", self.trials, _TRIALS),
            ("Seeds per trial", self.seeds, _SEEDS),
            ("At the same time", self.parallel, _PARALLEL),
        ):
            opener = quick_values(line, partial(tuple, values))
            self.usual[text] = opener
            form.addRow(text, column(row(line, opener, spacing=2), line.error, spacing=2))
        form.addRow("Name", self.name)
        form.addRow("", column(self.race, self.confirm, self.evaluate, spacing=4))
        return form

    def _connect(self) -> None:
        self.choice.described.connect(self._on_description)
        self.choice.edited.connect(self._on_edit)
        self.ranges.edited.connect(self._on_edit)
        for line in self._lines():
            line.textChanged.connect(self._on_edit)
        for box in (self.race, self.confirm, self.evaluate):
            box.toggled.connect(self._on_edit)

    def _lines(self) -> tuple[NumberLine, ...]:
        return (self.steps, self.trials, self.seeds, self.parallel)

    def set_actor(self, actor: Actor) -> None:
        self.choice.set_actor(actor)

    def content(self) -> dict[str, object]:
        return {
            "algo": self.algo.text,
            "env_id": self.env.text,
            "typed": texts_of(*self._lines(), self.name),
            "ranges": self.ranges.ticked(),
            "boxes": [box.isChecked() for box in (self.race, self.confirm, self.evaluate)],
        }

    def restore(self, content: Mapping[str, object]) -> None:
        self.ranges.expect(texts(content.get("ranges")))
        type_texts(content.get("typed"), *self._lines(), self.name)
        boxes = (self.race, self.confirm, self.evaluate)
        for box, on in zip(boxes, items(content.get("boxes") or []), strict=False):
            box.setChecked(bool(on))
        self.choice.keep_env = True
        self.algo.set_text(str(content.get("algo") or "ppo"))
        self.env.set_text(str(content.get("env_id") or ""))
        self.choice.keep_env = False

    def draft(self) -> SweepDraft:
        """What the form stands for."""
        actor = self.choice.actor
        return SweepDraft(
            worker=actor.worker_type if actor else "cleanrl",
            algo=self.algo.text,
            env_id=self.env.text,
            total_timesteps=self.steps.whole(self.choice.default_steps()),
            trials=self.trials.whole(20),
            seeds=self.seeds.whole(1),
            parallel=self.parallel.whole(1),
            race=self.race.isChecked() and self.race.isEnabled(),
            confirm=_CONFIRMED if self.confirm.isChecked() else 0,
            evaluate=self.evaluate.isChecked(),
            name=self.name.text().strip(),
            ranges=self.ranges.ticked(),
        )

    def problems(self) -> list[str]:
        """Everything that is wrong with the form now."""
        found = [self.algo.problem, self.env.problem, *(line.problem for line in self._lines())]
        if not self.ranges.ticked():
            found.append("tick at least one parameter to vary")
        return [problem for problem in found if problem]

    def submit(self) -> None:
        problems = self.problems()
        link = self._services.link
        if not link.local:
            problems.append("a sweep is started on the daemon's machine; copy the command")
        if problems:
            self.banner.say("danger", "Not started: " + "; ".join(problems))
            return
        words = self.draft().words()
        self.start.setEnabled(False)
        self.banner.say("info", "Starting …")
        self._services.calls.run(
            lambda: sweep_driver.drive(link.home, words), self._begun, self._refused
        )

    def _begun(self, sweep_id: str) -> None:
        self.start.setEnabled(True)
        self.banner.say("info", "")
        self._services.notices.say(
            Notice("success", f"The sweep {sweep_id} runs; closing the window does not stop it")
        )
        self._services.selection.select((sweep_id,))
        self.begun.emit(sweep_id)

    def _refused(self, error: Exception) -> None:
        self.start.setEnabled(True)
        self.banner.say("danger", f"Not started: {error}")

    def _copy(self) -> None:
        command = shlex.join(["mosaic", *self.draft().words()])
        sure(QGuiApplication.clipboard()).setText(command)
        self._services.notices.info("Copied", command)

    def _on_description(self, name: str, description: AlgorithmFacts) -> None:
        self.ranges.show_algorithm(description, library.parameters_that_matter(name))
        default = self.choice.default_steps()
        self.steps.setPlaceholderText(f"{default:,}" if default else "")
        self._on_edit()

    def _on_edit(self) -> None:
        draft = self.draft()
        # Without several seeds there is nothing to race over.
        self.race.setEnabled(draft.seeds > 1)
        varied = len(draft.ranges)
        noun = "parameter" if varied == 1 else "parameters"
        self._budget.setText(f"{varied} {noun}, at most {draft.runs:,} runs")
        self.edited.emit()


class RangeList(QWidget):
    """A tick and a range for each argument that can be varied.

    Signals:
        edited: A tick or a range changed.
    """

    edited = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.ticks: dict[str, QCheckBox] = {}
        self.lines: dict[str, QLineEdit] = {}
        self._expected: dict[str, str] = {}
        self.every = QCheckBox("All parameters")
        self.every.toggled.connect(self._show_fitting)
        self._grid = QGridLayout()
        self._grid.setColumnStretch(1, 1)
        how = label("a,b,c · low..high · low..high:step · log:low..high", "muted")
        self.setLayout(column(how, self._grid, self.every, spacing=6))

    def expect(self, ranges: Mapping[str, str]) -> None:
        """Tick these once the parameters are known."""
        self._expected = dict(ranges)

    def show_algorithm(self, description: AlgorithmFacts, first: tuple[str, ...]) -> None:
        """Offer the arguments of an algorithm; ticks of the same names are kept."""
        kept = {**self._expected, **self.ticked()}
        self._expected = {}
        clear(self._grid)
        self.ticks, self.lines = {}, {}
        for place, field in enumerate(rangeable(description.get("arguments", ()), first)):
            tick = QCheckBox(field.name)
            tick.setToolTip(field.help)
            line = QLineEdit(kept.get(field.name) or suggested_range(field))
            line.setAccessibleName(f"Range of {field.name}")
            line.setPlaceholderText("low..high")
            line.setEnabled(field.name in kept)
            tick.setChecked(field.name in kept)
            tick.toggled.connect(line.setEnabled)
            tick.toggled.connect(lambda _on: self.edited.emit())
            line.textChanged.connect(lambda _text: self.edited.emit())
            self.ticks[field.name], self.lines[field.name] = tick, line
            self._grid.addWidget(tick, place, 0)
            self._grid.addWidget(line, place, 1)
        self._show_fitting()
        self.edited.emit()

    def ticked(self) -> dict[str, str]:
        """What is varied, by name."""
        return {
            name: self.lines[name].text().strip()
            for name, tick in self.ticks.items()
            if tick.isChecked()
        }

    def _show_fitting(self) -> None:
        for place, (name, tick) in enumerate(self.ticks.items()):
            shown = place < _FIRST or tick.isChecked() or self.every.isChecked()
            tick.setVisible(shown)
            self.lines[name].setVisible(shown)
        self.every.setVisible(len(self.ticks) > _FIRST)
