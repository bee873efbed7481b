"""Where a run comes from and what was made of it: a tree, its branches on one axis, and forks."""

from dataclasses import dataclass

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QComboBox, QTreeWidget, QTreeWidgetItem, QWidget

from gym_gui.models.health import marks
from gym_gui.services import Services
from gym_gui.tabs.base import RunTab
from gym_gui.widgets.chart import Chart
from gym_gui.widgets.chart_lines import Line, Look
from gym_gui.widgets.controls import button, modest
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, row
from gym_gui.widgets.wrapping import FoldingSplitter
from mosaic.client import TrainerClient
from mosaic.client.lineage import Branch, lineage
from mosaic.curves.names import RETURN, TAGS
from mosaic.presenting.run_status import status_of, title_of
from mosaic.records import CheckpointRecord, RunRecord

# More curves look alike, and each is one more stream of the daemon.
_MOST = 12
_ID_ROLE = Qt.ItemDataRole.UserRole
_COLUMNS = ("Run", "From", "Changed", "State")


@dataclass(frozen=True)
class Family:
    """The tree that a run belongs to, and the checkpoints from which it can be forked."""

    root: Branch
    kept: tuple[CheckpointRecord, ...]

    def trainings(self) -> list[RunRecord]:
        """The runs of the tree that train, the first ancestor first."""
        return [branch.record for _, branch in self.root.walk() if _trains(branch.record)][:_MOST]


class LineageTab(RunTab):
    """Every branch over the same steps; a press on a kept checkpoint makes another one."""

    title = "Lineage"
    icon = "compare"

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self.family: Family | None = None
        self._following: list[str] = []
        self.tree = QTreeWidget()
        self.tree.setHeaderLabels(_COLUMNS)
        self.tree.setAccessibleName("Lineage of the run")
        self.tree.itemDoubleClicked.connect(self._open)
        self.chart = Chart(services.themes, services.clock, "Return of every branch")
        self.chart.marks.clicked = self._choose
        self.steps = QComboBox()
        self.steps.setAccessibleName("Checkpoint to fork from")
        modest(self.steps, 10)
        self.fork = button("Fork from here", self._fork, "primary")
        self.fork.setToolTip("Continue exactly from this checkpoint, as a run of its own")
        self._none = label("No checkpoint of this run is kept to fork from.", "muted", wrap=True)
        hint = "Upright lines are kept checkpoints and alarms; press one to choose it."
        legend = label(hint, "muted", wrap=True)
        side = QWidget()
        fork_row = row(label("Step", "muted"), self.steps, self.fork, 1)
        side.setLayout(column(self.chart, legend, fork_row, self._none, stretch={0: 1}))
        split = FoldingSplitter()
        split.addWidget(self.tree)
        split.addWidget(side)
        split.setStretchFactor(0, 1)
        split.setStretchFactor(1, 1)
        self.setLayout(column(split, margin=10))
        services.feeds.grown.connect(self._on_grown)

    def on_open(self) -> None:
        run_id = self.run_id

        def fetch(client: TrainerClient) -> Family:
            return Family(lineage(client, run_id), tuple(client.kept_checkpoints(run_id)))

        def show(family: Family) -> None:
            if self.active and run_id == self.run_id:
                self._show(family)

        self.link.ask(fetch, show, lambda error: self.services.notices.error("No lineage", error))

    def on_close(self) -> None:
        self._follow([])

    def on_other_run(self) -> None:
        self.family = None
        self.tree.clear()
        self.steps.clear()
        self.chart.set_lines({}, Look())

    def _show(self, family: Family) -> None:
        self.family = family
        self.tree.clear()
        self.tree.addTopLevelItem(self._item(family.root))
        self.tree.expandAll()
        for place in range(len(_COLUMNS)):
            self.tree.resizeColumnToContents(place)
        self.steps.clear()
        for item in family.kept:
            self.steps.addItem(f"{item.step:,}", item.step)
        self.steps.setCurrentIndex(self.steps.count() - 1)
        able = bool(family.kept)
        for widget in (self.steps, self.fork):
            widget.setEnabled(able)
        self._none.setVisible(not able)
        self._follow([run.run_id for run in family.trainings()])
        self._draw()

    def _item(self, branch: Branch) -> QTreeWidgetItem:
        run = branch.record
        texts = [title_of(run), branch.relation, ", ".join(branch.changed), status_of(run).label]
        item = QTreeWidgetItem(texts)
        item.setData(0, _ID_ROLE, run.run_id)
        item.setToolTip(0, run.run_id)
        font = item.font(0)
        font.setBold(run.run_id == self.run_id)
        item.setFont(0, font)
        for child in branch.branches:
            item.addChild(self._item(child))
        return item

    def _follow(self, ids: list[str]) -> None:
        for run_id in set(ids) - set(self._following):
            self.services.feeds.take(run_id)
        for run_id in set(self._following) - set(ids):
            self.services.feeds.give_back(run_id)
        self._following = ids

    def _on_grown(self, run_id: str, _tags: set[str]) -> None:
        if self.active and run_id in self._following:
            self._draw()

    def _draw(self) -> None:
        """Every training of the tree; steps count from the first one's beginning in all of them."""
        if self.family is None or self.run is None:
            return
        series = self.services.themes.theme.series
        lines: dict[str, Line] = {}
        for place, run in enumerate(self.family.trainings()):
            curve = self.services.feeds.curves(run.run_id).get(TAGS[RETURN])
            if curve is None:
                continue
            mine = run.run_id == self.run_id
            lines[run.run_id] = Line(
                curve,
                title_of(run),
                series[place % len(series)],
                strong=mine,
                marks=self._marks() if mine else (),
            )
        self.chart.set_lines(lines, Look(self.services.settings.smoothing))

    def _marks(self) -> tuple[tuple[float, str], ...]:
        assert self.run is not None
        kept = self.family.kept if self.family else ()
        return (*((item.step, "") for item in kept), *marks(self.run))

    def _choose(self, step: float) -> None:
        """The last kept checkpoint at or before a step: of an alarm, the one from before it."""
        able = [place for place in range(self.steps.count()) if self.steps.itemData(place) <= step]
        if able:
            self.steps.setCurrentIndex(able[-1])

    def _fork(self) -> None:
        run_id, step, link = self.run_id, self.steps.currentData(), self.link

        def forked(run: RunRecord) -> None:
            self.services.store.put(run, link.name)
            self.services.selection.select((run.run_id,))

        link.ask(
            lambda client: client.fork(run_id, step),
            forked,
            lambda error: self.services.notices.error("The run was not forked", error),
        )

    def _open(self, item: QTreeWidgetItem) -> None:
        self.services.selection.select((str(item.data(0, _ID_ROLE)),))


def _trains(run: RunRecord) -> bool:
    return run.mode not in ("policy_eval", "verify", "take_over")
