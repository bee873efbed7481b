"""The trials of a sweep: sortable, with what seems to matter beside them."""

from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QHeaderView,
    QProgressBar,
    QSplitter,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from gym_gui.background.run_reading import read_artifacts
from gym_gui.models.optuna_study import Study, read_study
from gym_gui.services import Services
from gym_gui.tabs.base import RunTab
from gym_gui.widgets.controls import button, plain_table
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import clear, column, row
from gym_gui.widgets.messages import EmptyState
from gym_gui.widgets.qt_types import sure
from mosaic.client import TrainerClient
from mosaic.presenting import formatting

Cell = float | int | str | None


def _cell(value: object) -> Cell:
    return value if value is None or isinstance(value, (int, float, str)) else str(value)


class _NumberItem(QTableWidgetItem):
    """Sorts by number."""

    def __init__(self, value: Cell) -> None:
        shown = value if isinstance(value, str) else formatting.number(value)
        super().__init__(shown)
        self._value = value

    def __lt__(self, other: QTableWidgetItem) -> bool:
        mine = self._value
        theirs = other._value if isinstance(other, _NumberItem) else None
        if mine is None or theirs is None:
            return mine is not None
        if isinstance(mine, str) or isinstance(theirs, str):
            return str(mine) < str(theirs)
        return mine < theirs


class OptunaTab(RunTab):
    """A read-only trial browser."""

    title = "Optuna"
    icon = "search"

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._headline = label("", "section")
        self.table = QTableWidget()
        self.table.setSelectionBehavior(QTableWidget.SelectionBehavior.SelectRows)
        plain_table(self.table)
        self.table.setAlternatingRowColors(True)
        self.table.setAccessibleName("Trials")
        self._bars = column(spacing=6)
        side = QWidget()
        what = label(
            "Share of the value's variation that each parameter explains by itself.",
            "muted",
            wrap=True,
        )
        side.setLayout(column(label("Importance", "section"), what, self._bars, 1, margin=8))
        split = QSplitter(Qt.Orientation.Horizontal)
        split.addWidget(self.table)
        split.addWidget(side)
        split.setStretchFactor(0, 3)
        split.setStretchFactor(1, 1)
        self._split = split
        self._empty = EmptyState("No study yet", "The sweep has not written its study.")
        top = row(self._headline, 1, button("Read again", self.read))
        self.setLayout(column(top, self._empty, split, margin=10))
        split.hide()
        services.themes.changed.connect(self._on_theme)

    def _on_theme(self) -> None:
        if self.active:
            self.read()

    def on_open(self) -> None:
        self.read()

    def on_other_run(self) -> None:
        self._split.hide()
        self._empty.show()

    def read(self) -> None:
        """Read the study from its file."""
        if self.run is None:
            return
        run_id, cache = self.run_id, self.services.cache

        def fetch(client: TrainerClient) -> Study:
            path = read_artifacts(client, run_id).optuna
            if not path:
                raise ValueError("the study's file is not available yet")
            return read_study(cache.fetch(client, run_id, path))

        def show(study: Study) -> None:
            if run_id == self.run_id:
                self._show(study)

        self.services.link.ask(
            fetch, show, lambda error: self._empty.say("No study yet", str(error))
        )

    def _show(self, study: Study) -> None:
        self._empty.hide()
        self._split.show()
        better = "highest" if study.maximise else "lowest"
        shown = len(study.trials)
        # A sweep's study is named after its first run, which says nothing to people.
        name = "" if study.name == self.run_id else f"{study.name}: "
        text = f"{name}{study.total:,} trials, the {better} value is best"
        if shown < study.total:
            text += f" (showing {shown:,})"
        self._headline.setText(text)
        names = study.parameters
        # A sorted table would move each row while it is being filled in.
        self.table.setSortingEnabled(False)
        self.table.setColumnCount(3 + len(names))
        self.table.setHorizontalHeaderLabels(["Trial", "State", "Value", *names])
        self.table.setRowCount(shown)
        for place, trial in enumerate(study.trials):
            cells: list[Cell] = [trial.number, trial.state, trial.value]
            cells += [_cell(trial.params.get(name)) for name in names]
            for at, value in enumerate(cells):
                self.table.setItem(place, at, _NumberItem(value))
        self.table.setSortingEnabled(True)
        best = Qt.SortOrder.DescendingOrder if study.maximise else Qt.SortOrder.AscendingOrder
        self.table.sortItems(2, best)
        self._mark_best()
        header = sure(self.table.horizontalHeader())
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setStretchLastSection(True)
        self._show_importances(study)

    def _mark_best(self) -> None:
        """The best trial, wherever sorting moves it."""
        for at in range(self.table.columnCount() if self.table.rowCount() else 0):
            item = sure(self.table.item(0, at))
            font = item.font()
            font.setBold(True)
            item.setFont(font)
            item.setForeground(self.services.themes.colour("success"))

    def _show_importances(self, study: Study) -> None:
        clear(self._bars)
        for name, share in study.importances().items():
            bar = QProgressBar()
            bar.setRange(0, 100)
            bar.setValue(round(share * 100))
            bar.setTextVisible(False)
            bar.setAccessibleName(f"{name}: {share:.2f}")
            self._bars.addLayout(row(label(name), 1, label(f"{share:.2f}", "muted")))
            self._bars.addWidget(bar)
