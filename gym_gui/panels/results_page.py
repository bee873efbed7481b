"""What the selected runs show together: configurations with intervals over their seeds."""

from collections.abc import Sequence

from qtpy.QtCore import QTimer
from qtpy.QtGui import QGuiApplication
from qtpy.QtWidgets import (
    QComboBox,
    QHeaderView,
    QPushButton,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from gym_gui.services import Services
from gym_gui.widgets.controls import button, modest, plain_table
from gym_gui.widgets.interval_plot import IntervalPlot, IntervalRow
from gym_gui.widgets.labels import label, selectable
from gym_gui.widgets.layouts import column, scrolled
from gym_gui.widgets.messages import EmptyState
from gym_gui.widgets.qt_types import sure
from gym_gui.widgets.wrapping import WrappingRow
from mosaic.client import TrainerClient
from mosaic.client.comparing import RETURN_CURVE, compare_runs
from mosaic.curves.names import tag_order
from mosaic.errors import InvalidArgumentError
from mosaic.presenting.run_status import is_real
from mosaic.records import Outcome
from mosaic.statistics import tables
from mosaic.statistics.comparison import Question
from mosaic.statistics.results import Cell, Comparison

Wanted = tuple[str, tuple[tuple[str, Outcome | None], ...]]
_HOW = (
    "Each dot is a seed, the diamond their mean, the bar the 95 % stratified bootstrap interval of "
    "the mean over seeds."
)
# Ten runs that end in the same second are compared once.
_COALESCE_MS = 200


class ResultsPage(QWidget):
    """The numbers of `mosaic compare` for the runs that are selected."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self._ids: tuple[str, ...] = ()
        self._asked: Wanted | None = None
        self.found: Comparison | None = None
        self.curve = QComboBox()
        self.curve.setAccessibleName("What is compared")
        self.curve.setToolTip("The curve whose last value counts; of an evaluation, its mean")
        modest(self.curve, 22)
        self.curve.addItem(RETURN_CURVE)
        self.curve.currentIndexChanged.connect(lambda _place: self._ask())
        self.latex = button("Copy LaTeX", lambda: self._copy(tables.latex, "LaTeX"))
        self.csv = button("Copy CSV", lambda: self._copy(tables.csv_text, "CSV"))
        self.report = QPushButton("Report …")
        self.report.setToolTip("One page with figures, tables, settings and commands, to hand over")
        self.plot = IntervalPlot(services.themes)
        self.table, self.pairs = _table("Configurations"), _table("Pairs of configurations")
        self._pairs_title = label(
            "Probability that a run of the first is better than one of the second", "section"
        )
        self._how = label(_HOW, "muted", wrap=True)
        self.notes = selectable(label("", "muted", wrap=True))
        self._empty = EmptyState("Nothing to compare", "Select one or more runs in the table.")
        bar = QWidget()
        copies = (self.latex, self.csv, self.report)
        bar.setLayout(WrappingRow(label("Compare", "muted"), self.curve, *copies))
        self._content = QWidget()
        parts = (self.plot, self._how, self.table, self._pairs_title, self.pairs, self.notes)
        self._content.setLayout(column(*parts, 1, margin=4, spacing=8))
        self._area = scrolled(self._content)
        self.setLayout(column(bar, self._area, self._empty, margin=8))
        self._area.hide()
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(_COALESCE_MS)
        self._later.timeout.connect(self._ask)
        services.store.changed.connect(self._on_store)

    def show_runs(self, ids: tuple[str, ...]) -> None:
        """Compare these runs, all of them however many are drawn."""
        if ids != self._ids:
            self._ids, self.found = ids, None
            self._say("Comparing", "Reading the curves of the runs.")
        self._fill_metrics()
        self._ask()

    def _fill_metrics(self) -> None:
        """Offer the curves that are known; the choice stays."""
        known = {tag for run_id in self._ids for tag in self._services.feeds.curves(run_id)}
        for tag in sorted(known, key=tag_order):
            if self.curve.findText(tag) < 0:
                self.curve.addItem(tag)

    def _on_store(self, ids: set[str]) -> None:
        if self.isVisible() and ids & set(self._ids):
            self._later.start()

    def _ask(self) -> None:
        known = map(self._services.store.get, self._ids)
        runs = [run for run in known if run is not None and is_real(run)]
        # Curves that only grow change nothing here: a run counts when it has ended.
        wanted = (self.curve.currentText(), tuple((run.run_id, run.outcome) for run in runs))
        if wanted == self._asked:
            return
        self._asked = wanted
        if not runs:
            self._say("Nothing to compare", "Select one or more runs in the table.")
            return
        question = Question(self.curve.currentText())

        def compare(client: TrainerClient) -> Comparison:
            return compare_runs(client, [run_id for run_id, _ in wanted[1]], question)

        def take(found: Comparison) -> None:
            if self._asked == wanted:
                self._show(found)

        def failed(error: Exception) -> None:
            if self._asked == wanted:
                self._asked = None
                self._say("Nothing to compare yet", str(error))

        try:
            link = self._services.daemons.shared([run.run_id for run in runs])
        except InvalidArgumentError as error:
            failed(error)
            return
        link.ask(compare, take, failed)

    def _say(self, title: str, text: str) -> None:
        self._empty.say(title, text)
        self._empty.show()
        self._area.hide()

    def _show(self, found: Comparison) -> None:
        self.found = found
        if not found.cells:
            self._say("No run counts yet", "\n".join(found.notes))
            return
        self._empty.hide()
        self._area.show()
        self.plot.show_rows(self._rows(found), found.metric)
        _fill(self.table, tables.columns(found), [tables.row(cell, found) for cell in found.cells])
        _fill(self.pairs, tables.PAIR_COLUMNS, [tables.pair_row(pair) for pair in found.pairs])
        for part in (self._pairs_title, self.pairs):
            part.setVisible(bool(found.pairs))
        self.notes.setText("\n".join(f"Note: {note}" for note in found.notes))
        self.notes.setVisible(bool(found.notes))

    def _rows(self, found: Comparison) -> list[IntervalRow]:
        series = self._services.themes.theme.series
        several = len({cell.env_id for cell in found.cells}) > 1
        groups = list(dict.fromkeys(cell.group for cell in found.cells))
        return [
            _interval(cell, series[groups.index(cell.group) % len(series)], several)
            for cell in found.cells
        ]

    def _copy(self, as_text: "tables.AsText", what: str) -> None:
        if self.found is None:
            self._services.notices.problem("There is no comparison to copy yet")
            return
        sure(QGuiApplication.clipboard()).setText(as_text(self.found))
        self._services.notices.info(f"Copied as {what}")


def _interval(cell: Cell, colour: str, with_environment: bool) -> IntervalRow:
    name = f"{cell.group} · {cell.env_id}" if with_environment else cell.group
    ends = cell.mean_interval
    low, high = (None, None) if ends is None else (ends.low, ends.high)
    return IntervalRow(name, colour, cell.scores, cell.mean, low, high)


def _table(name: str) -> QTableWidget:
    made = QTableWidget()
    plain_table(made)
    made.setAccessibleName(name)
    return made


def _fill(table: QTableWidget, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table.setColumnCount(len(names))
    table.setHorizontalHeaderLabels([_title(name) for name in names])
    table.setRowCount(len(rows))
    for place, texts in enumerate(rows):
        for at, text in enumerate(texts):
            item = QTableWidgetItem(text)
            item.setToolTip(text)
            table.setItem(place, at, item)
    header = sure(table.horizontalHeader())
    header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
    # As high as its rows: the page scrolls, not the table.
    heights = sum(table.rowHeight(place) for place in range(len(rows)))
    table.setFixedHeight(heights + header.sizeHint().height() + 20)


def _title(name: str) -> str:
    return name if name in ("IQM", "SD", "95 % CI") else name.capitalize()
