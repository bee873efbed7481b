"""What makes a train form an experiment: parameters, algorithms and environments to compare."""

from functools import partial

from qtpy.QtCore import QObject, Signal
from qtpy.QtWidgets import QLineEdit, QWidget

from gym_gui.forms.script_choice import ScriptChoice
from gym_gui.models.form_grid import Arguments, forecast, grid_configs
from gym_gui.models.train_draft import TrainDraft
from gym_gui.services import Services
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, row
from gym_gui.widgets.more_names import MoreNames
from mosaic.config.model import TrainRunConfig
from mosaic.errors import InvalidConfigError
from mosaic.workers.facts import AlgorithmFacts


class ExperimentSection(QObject):
    """The fields for several configurations, and what comes of them.

    Signals:
        edited: Something was changed, or an algorithm that was ticked has described itself.
    """

    edited = Signal()

    def __init__(self, services: Services, choice: ScriptChoice) -> None:
        super().__init__(choice)
        self._services, self._choice = services, choice
        self._described: dict[str, AlgorithmFacts] = {}
        self._asked: set[str] = set()
        self._slots = 1
        self.problem = ""
        self.vary = QLineEdit()
        self.vary.setPlaceholderText("learning_rate=1e-3,3e-4; num_envs=4,8")
        self.vary.setAccessibleName("Vary")
        self.vary.setToolTip(
            "Parameters with several values: every combination is trained with every seed, "
            "as one experiment"
        )
        self.algos, self.envs = MoreNames("algorithms"), MoreNames("environments")
        self._text = label("", "muted", wrap=True)
        self.vary.textChanged.connect(lambda _text: self.edited.emit())
        for more in (self.algos, self.envs):
            more.changed.connect(self._on_more)
        choice.algo.checked.connect(lambda: self.algos.leave_out(choice.algo.text))
        choice.env.checked.connect(lambda: self.envs.leave_out(choice.env.text))
        choice.listed.connect(self._on_lists)

    def field(self) -> QWidget:
        """The fields below each other."""
        host = QWidget()
        more = row(self.algos, self.envs, spacing=6, stretch={0: 1, 1: 1})
        host.setLayout(column(self.vary, more, self._text, spacing=4))
        return host

    def tab_stops(self) -> tuple[QWidget, ...]:
        """Where the Tab key stops."""
        return (self.vary, self.algos, self.envs)

    def write(self, draft: TrainDraft) -> None:
        """Put what is in the fields into a draft."""
        draft.vary = self.vary.text().strip()
        draft.more_algos, draft.more_envs = self.algos.chosen, self.envs.chosen

    def read(self, draft: TrainDraft) -> None:
        """Show a draft."""
        self.vary.setText(draft.vary)
        self.algos.set_chosen(draft.more_algos)
        self.envs.set_chosen(draft.more_envs)
        self._describe_more()

    def set_slots(self, count: int) -> None:
        """How many runs the machine trains at the same time."""
        self._slots = count

    def configs(self, draft: TrainDraft) -> list[TrainRunConfig]:
        """Every run that a draft stands for.

        Raises:
            InvalidConfigError: With every problem.
        """
        return grid_configs(draft, self._arguments(draft)) if draft.several else draft.configs()

    def check(self, draft: TrainDraft) -> int:
        """How many runs the form stands for; what is wrong is said below the fields."""
        self.problem = ""
        count = draft.seeds
        if draft.several:
            self.problem = self._misfit(draft)
            try:
                count = len(self.configs(draft))
            except InvalidConfigError as error:
                self.problem = error.problems[0].message
            runs = self._services.store.runs.values()
            slots = self._slots // max(1, draft.cpus)
            self._text.setText(self.problem or forecast(count, draft, runs, slots))
        else:
            self._text.setText("")
        self._text.setVisible(bool(self._text.text()))
        return count

    def _arguments(self, draft: TrainDraft) -> dict[str, Arguments]:
        return {
            algo: self._description(algo).get("arguments")
            for algo in (draft.algo, *draft.more_algos)
        }

    def _description(self, algo: str) -> AlgorithmFacts:
        own = self._choice.description if algo == self._choice.name else None
        return own or self._described.get(algo) or {}

    def _misfit(self, draft: TrainDraft) -> str:
        """Why an algorithm cannot be trained in an environment of the form; empty if all can."""
        if draft.curriculum_schedule and draft.more_envs:
            return "A curriculum names its environments itself: untick the other environments"
        for algo in (draft.algo, *draft.more_algos):
            for env_id in (draft.env_id, *draft.more_envs):
                problem = self._choice.misfit(self._description(algo), env_id)
                if problem:
                    return f"{algo}: {problem}"
        return ""

    def _on_lists(self) -> None:
        self.algos.set_choices(sorted(self._choice.algo.names))
        self.envs.set_choices(self._choice.env.ordered)
        self._describe_more()

    def _on_more(self) -> None:
        self._describe_more()
        self.edited.emit()

    def _describe_more(self) -> None:
        """Ask the algorithms that were ticked what they can act on, and for their parameters."""
        actor = self._choice.actor
        if actor is None or actor.capabilities is None:
            return
        for algo in set(self.algos.chosen) - self._asked:
            self._asked.add(algo)
            self._services.hooks.describe(
                actor.capabilities,
                algo,
                partial(self._on_description, algo),
                lambda _error: None,  # the daemon says what is wrong with it
            )

    def _on_description(self, algo: str, description: AlgorithmFacts) -> None:
        self._described[algo] = description
        self.edited.emit()
