"""The curriculum of a train form: environments in the order in which they are learned."""

from collections.abc import Mapping, Sequence

from qtpy.QtCore import QObject, Signal
from qtpy.QtWidgets import QComboBox, QWidget

from gym_gui.forms.base import NumberLine, form_layout
from gym_gui.forms.script_choice import ScriptChoice
from gym_gui.models.curriculum import USUAL_STEPS, Stage, schedule, summary
from gym_gui.models.train_draft import TrainDraft
from gym_gui.widgets.card_list import Card, CardList
from gym_gui.widgets.controls import modest
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column
from gym_gui.widgets.picker import Picker
from mosaic.workers.facts import AlgorithmFacts

_NONE, _OWN = "", "own"
# One stage would be ordinary training.
_FEWEST = 2


class StageCard(Card):
    """One environment, and what ends it."""

    def __init__(self) -> None:
        super().__init__()
        self.env = Picker("environment")
        self.steps = NumberLine("Steps", None, optional=True)
        self.episodes = NumberLine("Episodes", None, optional=True, placeholder="any number")
        self.reached = NumberLine(
            "Return", None, -1e12, 1e12, whole=False, optional=True, placeholder="any"
        )
        self._until = QWidget()
        form = form_layout()
        for title, line in (
            ("until steps", self.steps),
            ("or episodes", self.episodes),
            ("or return", self.reached),
        ):
            form.addRow(title, column(line, line.error, spacing=2))
            line.textChanged.connect(self._on_edit)
        self._until.setLayout(form)
        self._end = label("to the end of the run", "muted")
        self.env.checked.connect(self._on_edit)
        self.setLayout(column(self.env, self._until, self._end, spacing=5))
        self._last = False
        self._on_edit()

    def set_place(self, place: int, count: int) -> None:
        self._last = place == count - 1
        self._until.setVisible(not self._last)
        self._end.setVisible(self._last)
        # What is typed wrongly is kept by these names; see `TrainForm.content`.
        for line, noun in ((self.steps, "Steps"), (self.episodes, "Episodes")):
            line.setAccessibleName(f"{noun} of stage {place + 1}")
        self.reached.setAccessibleName(f"Return of stage {place + 1}")
        self.env.combo.setAccessibleName(f"environment of stage {place + 1}")

    def tab_stops(self) -> tuple[QWidget, ...]:
        return (self.env.combo, self.steps, self.episodes, self.reached)

    @property
    def problems(self) -> list[str]:
        """What is wrong, one sentence a field."""
        lines = () if self._last else (self.steps, self.episodes, self.reached)
        found = [self.env.problem or ("" if self.env.text else "choose an environment")]
        return [problem for problem in (*found, *(line.problem for line in lines)) if problem]

    def stage(self) -> Stage:
        """What is filled in; fields that are wrong count as empty."""
        steps, episodes = (line.whole(None) for line in (self.steps, self.episodes))
        return Stage(self.env.text, steps, episodes, self.reached.valid())

    def show_stage(self, stage: Stage) -> None:
        """Fill it in."""
        self.env.set_text(stage.env_id)
        self.steps.set_value(stage.steps)
        self.episodes.set_value(stage.episodes)
        self.reached.set_value(stage.episode_return)

    def _on_edit(self) -> None:
        others = self.episodes.text() or self.reached.text()
        self.steps.setPlaceholderText("any number" if others else f"{USUAL_STEPS:,}")
        self.edited.emit()


class CurriculumSection(QObject):
    """No curriculum, one that the worker brings along, or stages of the user's own.

    Signals:
        edited: Something was changed.
    """

    edited = Signal()

    def __init__(self, choice: ScriptChoice) -> None:
        super().__init__(choice)
        self._choice = choice
        self._filling = False
        self._offered = False
        self.kind = QComboBox()
        self.kind.setAccessibleName("Curriculum")
        self.kind.setToolTip(
            "One agent learns in several environments, one after the other, without a restart"
        )
        modest(self.kind)
        self._presets: Mapping[str, Sequence[str]] = {}
        self._offer({})
        self.stages: CardList[StageCard] = CardList("stage", self._make, _FEWEST)
        self._preview = label("", "muted", wrap=True)
        self._problem = label("", "error", wrap=True)
        self._host = QWidget()
        self._host.setLayout(
            column(self.kind, self.stages, self._preview, self._problem, spacing=5)
        )
        self.kind.currentIndexChanged.connect(lambda _place: self._on_kind())
        self.stages.edited.connect(self._on_edit)
        choice.described.connect(self._on_description)
        choice.listed.connect(self._on_lists)
        self._show()

    def field(self) -> QWidget:
        """The fields below each other."""
        return self._host

    def tab_stops(self) -> list[QWidget]:
        """Where the Tab key stops."""
        return [self.kind, *self.stages.tab_stops()]

    def set_offered(self, offered: bool) -> None:
        """Whether the worker knows curricula at all."""
        self._offered = offered
        self._show()

    @property
    def chosen(self) -> str:
        """Nothing, `own`, or the name of a preset."""
        return str(self.kind.currentData() or "")

    @property
    def problems(self) -> list[str]:
        """What is wrong, one sentence for each stage's field."""
        if self.chosen != _OWN:
            return []
        found = [
            f"stage {place}: {problem}"
            for place, card in enumerate(self.stages.cards, start=1)
            for problem in card.problems
        ]
        return found or [problem for problem in [self._difference()] if problem]

    def environments(self) -> list[str]:
        """Where it leads through, in order; empty without a curriculum."""
        if self.chosen == _OWN:
            return [card.env.text for card in self.stages.cards]
        return list(self._presets.get(self.chosen, ()))

    def write(self, draft: TrainDraft) -> None:
        """Put the curriculum into a draft."""
        own = [card.stage() for card in self.stages.cards]
        draft.curriculum_schedule = schedule(own) if self.chosen == _OWN else self.chosen

    def read(self, draft: TrainDraft) -> None:
        """Show the curriculum of a draft."""
        given = draft.curriculum_schedule
        self._filling = True
        if isinstance(given, str):
            if given and self.kind.findData(given) < 0:
                # Known once the algorithm has described itself.
                self.kind.addItem(given, given)
            self.kind.setCurrentIndex(max(0, self.kind.findData(given)))
        else:
            self.kind.setCurrentIndex(self.kind.findData(_OWN))
            self.stages.have(len(given))
            for card, stage in zip(self.stages.cards, given, strict=True):
                card.show_stage(Stage.from_fields(stage))
        self._filling = False
        self._on_edit()

    def _make(self) -> StageCard:
        card = StageCard()
        card.env.set_choices(self._choice.env_groups)
        return card

    def _offer(self, presets: Mapping[str, Sequence[str]]) -> None:
        chosen = self.chosen
        self._presets = presets
        self.kind.blockSignals(True)
        self.kind.clear()
        self.kind.addItem("none", _NONE)
        self.kind.addItem("stages below", _OWN)
        for name in presets:
            self.kind.addItem(name.replace("_", " ").capitalize(), name)
        self.kind.setCurrentIndex(max(0, self.kind.findData(chosen)))
        self.kind.blockSignals(False)

    def _on_description(self, _name: str, description: AlgorithmFacts) -> None:
        self._offer(description.get("curricula") or {})
        if not description.get("curricula"):
            # The stages stay for an algorithm that follows them.
            self.kind.setCurrentIndex(0)
        self._on_edit()

    def _on_lists(self) -> None:
        for card in self.stages.cards:
            card.env.set_choices(self._choice.env_groups)

    def _on_kind(self) -> None:
        if self.chosen == _OWN and not self.stages.cards and not self._filling:
            self._filling = True
            self.stages.append().env.set_text(self._choice.env.text)
            self.stages.append()
            self._filling = False
        self._on_edit()

    def _on_edit(self) -> None:
        if self._filling:
            return
        # The run is named and judged by the environment it ends in.
        places = self.environments()
        if places and places[-1] and places[-1] != self._choice.env.text:
            self._choice.env.set_text(places[-1])
        self._show()
        self.edited.emit()

    def _show(self) -> None:
        follows = self._offered and bool(self._choice.description.get("curricula"))
        self.kind.setEnabled(follows)
        self._choice.env.setEnabled(not self.chosen)
        self.stages.setVisible(self.chosen == _OWN)
        if self.chosen == _OWN:
            text = summary([card.stage() for card in self.stages.cards])
        else:
            places = enumerate(self.environments(), start=1)
            text = "\n".join(f"{place}. {env_id}" for place, env_id in places)
        if self._offered and self._choice.description and not follows:
            text = f"{self._choice.name} makes its environments itself and follows no curriculum"
        self._preview.setText(text)
        self._preview.setVisible(bool(text))
        difference = self._difference() if self.chosen == _OWN else ""
        self._problem.setText(difference)
        self._problem.setVisible(bool(difference))

    def _difference(self) -> str:
        """Why one agent cannot act in all stages, as far as their kinds tell."""
        first, *others = self.environments() or [""]
        for env_id in others:
            for noun in ("actions", "observations"):
                here, there = self._choice.kind_of(first, noun), self._choice.kind_of(env_id, noun)
                if here and there and here != there:
                    return (
                        f"{env_id} has {there} {noun}, {first} has {here} ones: one agent cannot "
                        "learn in both"
                    )
        return ""
