"""The phases of a script, built field by field instead of written into a file."""

from collections.abc import Mapping, Sequence

from qtpy.QtWidgets import QComboBox, QLabel, QLineEdit, QWidget

from gym_gui.forms.base import NumberLine, form_layout
from gym_gui.forms.script_choice import ScriptChoice
from gym_gui.models.actors import Actor
from gym_gui.models.phases import read_settings, settings_text
from gym_gui.services import Services
from gym_gui.widgets.card_list import Card, CardList
from gym_gui.widgets.controls import modest, restyle
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column
from mosaic.config.model import TrainingPhase
from mosaic.config.phases import WARM_START, phase_problem

# What a person reads for each way to begin.
_BEGINS = {
    "fresh": "from nothing",
    "continued": "where the phase before ended",
    "warm": "with the policy of the phase before",
}
Texts = Mapping[str, str]


class PhaseCard(Card):
    """One training: what, where, how long, with which settings."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        self.choice = ScriptChoice(services, self)
        self.algo, self.env = self.choice.algo, self.choice.env
        self.name = QLineEdit()
        self.name.setMaxLength(60)
        self.begins = QComboBox()
        modest(self.begins)
        for key, words in _BEGINS.items():
            self.begins.addItem(words, key)
        self.steps = NumberLine("Steps", 10_000)
        self.settings = QLineEdit()
        self.settings.setPlaceholderText("learning_rate=1e-4; ent_coef=0.01")
        self._name_error, self._settings_error = _error(), _error()
        self._place_error = _error()
        form = form_layout()
        form.addRow("Name", column(self.name, self._name_error, spacing=2))
        form.addRow("Begins", column(self.begins, self._place_error, spacing=2))
        form.addRow("Algorithm", self.algo)
        form.addRow("Environment", self.env)
        form.addRow("Steps", column(self.steps, self.steps.error, spacing=2))
        form.addRow("Settings", column(self.settings, self._settings_error, spacing=2))
        self.setLayout(form)
        for line in (self.name, self.steps, self.settings):
            line.textChanged.connect(lambda _text: self.edited.emit())
        self.begins.currentIndexChanged.connect(lambda _place: self.edited.emit())
        self.choice.edited.connect(self.edited)
        self.choice.described.connect(lambda _name, _description: self.edited.emit())

    def set_place(self, place: int, count: int) -> None:
        if not self.name.text():
            self.name.setText(f"phase {place + 1}")
        # For screen readers and tests: the fields of all cards have the same titles.
        for widget, noun in (
            (self.name, "Name"),
            (self.begins, "Beginning"),
            (self.algo.combo, "Algorithm"),
            (self.env.combo, "Environment"),
            (self.steps, "Steps"),
            (self.settings, "Settings"),
        ):
            widget.setAccessibleName(f"{noun} of phase {place + 1}")
        self.begins.setEnabled(place > 0)
        if place == 0:
            self.begins.setCurrentIndex(0)

    def tab_stops(self) -> tuple[QWidget, ...]:
        top = (self.name, self.begins, self.algo.combo, self.env.combo)
        return (*top, self.steps, self.settings)

    def follow(self, before: "PhaseCard | None") -> None:
        """Take algorithm and environment of the phase that this one continues."""
        continues = before is not None and self.begins.currentData() == "continued"
        for picker in (self.algo, self.env):
            picker.setEnabled(not continues)
        if before is not None and continues:
            for own, theirs in ((self.algo, before.algo), (self.env, before.env)):
                if own.text != theirs.text:
                    own.set_text(theirs.text)

    def own_problems(self) -> list[str]:
        """What is wrong with the fields themselves; each is also said beside its field."""
        name = self.name.text().strip()
        named = "" if name else "a phase needs a name"
        if "," in name:
            named = "a phase's name has no comma: it is one of a list"
        _say(self.name, self._name_error, named)
        _, unfit = read_settings(
            self.settings.text(), self.choice.description.get("arguments", ()), self.algo.text
        )
        _say(self.settings, self._settings_error, unfit)
        chosen = [self.algo.problem, self.env.problem]
        chosen += [] if self.algo.text and self.env.text else ["choose algorithm and environment"]
        found = (named, unfit, *chosen, self.steps.problem, self._warm_problem())
        return [problem for problem in found if problem]

    def say_place(self, problem: str) -> None:
        """Show what is wrong with its place among the phases, or with how it begins."""
        _say(self.begins, self._place_error, problem or self._warm_problem())

    def phase(self) -> TrainingPhase:
        """What is filled in; only for a card without problems of its own."""
        values, _ = read_settings(
            self.settings.text(), self.choice.description.get("arguments", ()), self.algo.text
        )
        return TrainingPhase(
            name=self.name.text().strip(),
            algo=self.algo.text,
            env_id=self.env.text,
            steps=self.steps.whole(1),
            begins=self.begins.currentData(),
            parameters=values,
        )

    def texts(self) -> dict[str, str]:
        """What is typed, right or wrong, for keeping."""
        return {
            "name": self.name.text(),
            "begins": str(self.begins.currentData()),
            "algo": self.algo.text,
            "env_id": self.env.text,
            "steps": self.steps.text(),
            "settings": self.settings.text(),
        }

    def type_texts(self, texts: Texts) -> None:
        """Put back what `texts` gave."""
        self.choice.keep_env = True
        self.name.setText(texts.get("name", ""))
        self.begins.setCurrentIndex(max(0, self.begins.findData(texts.get("begins"))))
        # Nothing typed is no choice: what is offered first stays.
        for picker, key in ((self.algo, "algo"), (self.env, "env_id")):
            if texts.get(key):
                picker.set_text(texts[key])
        self.steps.setText(texts.get("steps", ""))
        self.settings.setText(texts.get("settings", ""))
        self.choice.keep_env = False

    def _warm_problem(self) -> str:
        arguments = self.choice.description.get("arguments", ())
        able = not arguments or any(one["name"] == WARM_START for one in arguments)
        if able or self.begins.currentData() != "warm":
            return ""
        return f"{self.algo.text} cannot begin with a policy: let it begin from nothing"


class PhaseList(CardList[PhaseCard]):
    """The phases, in the order in which they are trained."""

    def __init__(self, services: Services) -> None:
        super().__init__("phase", self._new)
        self._services = services
        self._actor: Actor | None = None
        self._checking = False
        self.problems: list[str] = []
        self.edited.connect(self._check)

    def set_actor(self, actor: Actor) -> None:
        """Offer the algorithms and environments of this worker."""
        self._actor = actor
        for card in self.cards:
            card.choice.set_actor(actor)

    def phases(self) -> list[TrainingPhase]:
        """What is filled in; only while there are no problems."""
        return [card.phase() for card in self.cards]

    def texts(self) -> list[dict[str, str]]:
        """What is typed, right or wrong, for keeping."""
        return [card.texts() for card in self.cards]

    def type_texts(self, phases: Sequence[Texts]) -> None:
        """Put back what `texts` gave."""
        # Each card that is made or filled in would check all of them.
        self._checking = True
        self.have(len(phases))
        for card, texts in zip(self.cards, phases, strict=True):
            card.type_texts(texts)
        self._checking = False
        self.edited.emit()

    def _new(self) -> PhaseCard:
        card = PhaseCard(self._services)
        if self._actor is not None:
            card.choice.set_actor(self._actor)
        return card

    def _check(self) -> None:
        # What a card takes over from the one before is an edit again.
        if self._checking:
            return
        self._checking = True
        cards = self.cards
        for before, card in zip((None, *cards), cards, strict=False):
            card.follow(before)
        found = [
            f"phase {place}: {problem}"
            for place, card in enumerate(cards, start=1)
            for problem in card.own_problems()
        ]
        phases = [] if found else self.phases()
        for place, card in enumerate(cards):
            problem = phase_problem(phases, place) if phases else ""
            card.say_place(problem)
            if problem:
                found.append(f"phase {place + 1}: {problem}")
        self.problems = found
        self._checking = False


def texts_of_phase(phase: TrainingPhase) -> dict[str, str]:
    """A phase as it would be typed into its card."""
    return {
        "name": phase.name,
        "begins": phase.begins,
        "algo": phase.algo,
        "env_id": phase.env_id,
        "steps": str(phase.steps),
        "settings": settings_text(phase.parameters),
    }


def _error() -> QLabel:
    made = label("", "error", wrap=True)
    made.hide()
    return made


def _say(field: QWidget, error: QLabel, problem: str) -> None:
    restyle(field, "problem", "true" if problem else "false")
    error.setText(problem)
    error.setVisible(bool(problem))
