"""Who plays in the arena: a list to tick, and a line to add others by name."""

from collections.abc import Callable, Mapping, Sequence

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QLineEdit, QListWidget, QListWidgetItem, QWidget

from gym_gui.widgets.controls import button
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, row
from mosaic.arena.match import RUN, check_agents
from mosaic.errors import InvalidArgumentError

_TIPS = {
    "random": "Every action is equally likely",
    "bot": "BabyAI's own planner; a search in board games",
    "human": "What you play at the keys with the same seeds",
    "bdi": "The newest BDI agent that was trained in the environment",
}
_SHOWN_ROWS = 6


class AgentList(QWidget):
    """Agents by name; the first one that is ticked is the baseline.

    Signals:
        edited: The list or a tick changed.
    """

    edited = Signal()

    def __init__(self, selected_runs: Callable[[], Sequence[str]]) -> None:
        super().__init__()
        self._selected_runs = selected_runs
        self.list = QListWidget()
        self.list.setAccessibleName("Agents")
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.itemChanged.connect(lambda _item: self.edited.emit())
        self.name = QLineEdit()
        self.name.setAccessibleName("Another agent")
        self.name.setPlaceholderText("llm:ollama:llama3.2 or run:ID")
        self.name.returnPressed.connect(self.add_typed)
        self.error = label("", "error", wrap=True)
        self.error.hide()
        self.add = button("Add", self.add_typed)
        self.add_runs = button(
            "Add selected runs", self.add_selected, tip="The runs selected in the table"
        )
        self.setLayout(
            column(self.list, row(self.name, self.add), self.error, self.add_runs, spacing=6)
        )

    @property
    def agents(self) -> dict[str, bool]:
        """Every agent, and whether it is ticked."""
        items = [self.list.item(at) for at in range(self.list.count())]
        return {
            item.text(): item.checkState() == Qt.CheckState.Checked
            for item in items
            if item is not None
        }

    @property
    def ticked(self) -> list[str]:
        """Those that play."""
        return [name for name, on in self.agents.items() if on]

    def set_agents(self, agents: Mapping[str, bool]) -> None:
        """Show these and no others."""
        # Filling the list would report every tick as one that a person made.
        self.list.blockSignals(True)
        self.list.clear()
        for name, on in agents.items():
            item = QListWidgetItem(name)
            item.setToolTip(_TIPS.get(name, name))
            item.setCheckState(Qt.CheckState.Checked if on else Qt.CheckState.Unchecked)
            self.list.addItem(item)
        self.list.blockSignals(False)
        height = self.list.sizeHintForRow(0) * max(_SHOWN_ROWS, min(len(agents), 10))
        self.list.setFixedHeight(height + 2 * self.list.frameWidth() + 4)

    def add_typed(self) -> None:
        """Add the agent whose name was typed, ticked."""
        if self._take([self.name.text().strip()]):
            self.name.clear()

    def add_selected(self) -> None:
        """Add the runs that are selected in the table."""
        self._take([f"{RUN}{run_id}" for run_id in self._selected_runs()])

    def _take(self, names: Sequence[str]) -> bool:
        problem = "" if names else "No run is selected in the table."
        try:
            # With one that is always there: two different agents make an arena.
            check_agents(["random", "bot", *names])
        except InvalidArgumentError as error:
            problem = str(error)
        self.error.setText(problem)
        self.error.setVisible(bool(problem))
        if not problem:
            self.set_agents({**self.agents, **dict.fromkeys(names, True)})
            self.edited.emit()
        return not problem
