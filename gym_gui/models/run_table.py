"""The run table's model: rows are arranged here, cells are made only when they are looked at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from qtpy.QtCore import QAbstractTableModel, QModelIndex, QObject, Qt, Signal

from gym_gui.models import formatting
from gym_gui.models.run_columns import BY_KEY, COLUMNS
from gym_gui.models.run_filter import FilterError, Predicate, compile_filter
from gym_gui.models.run_order import Group, GroupKey, Row, View, arrange
from gym_gui.models.run_status import Record, one_line, status_of
from gym_gui.models.run_store import RunStore

ROW_ROLE = Qt.ItemDataRole.UserRole + 1
# Which columns a change of a run's vital signs can move; sorting by others survives it.
_LIVELY = {"state", "progress", "eta", "return", "sps", "checkpoint", "why"}


class RunTableModel(QAbstractTableModel):
    """Shows a `RunStore` through a `View` and a filter.

    Signals:
        filter_problem: What is wrong with the filter; empty when it is fine again.
        arranged: The rows are others than before, or in another order.
    """

    filter_problem = Signal(str)
    arranged = Signal()

    def __init__(self, store: RunStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._rows: list[Row] = []
        self._places: dict[str, int] = {}
        self._fits: Predicate | None = None
        self.view = View()
        store.changed.connect(self._on_changed)
        self._rearrange()

    # ------------------------------------------------------------ looking at it

    def set_filter(self, text: str) -> None:
        """Show only the runs that fit; a filter that cannot be read changes nothing."""
        try:
            self._fits = compile_filter(text)
        except FilterError as error:
            self.filter_problem.emit(str(error))
            return
        self.filter_problem.emit("")
        self._rearrange()

    def set_view(self, **changes: Any) -> None:
        """Change how the table is looked at."""
        self.view = replace(self.view, **changes)
        self._rearrange()

    def toggle_group(self, key: GroupKey) -> None:
        """Fold or unfold a group."""
        self.set_view(collapsed=self.view.collapsed ^ {key})

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column (Qt's own entry point)."""
        descending = order == Qt.SortOrder.DescendingOrder
        self.set_view(sort=COLUMNS[column].key, descending=descending)

    def row_at(self, row: int) -> Row | None:
        """What is in a row."""
        return self._rows[row] if 0 <= row < len(self._rows) else None

    def row_of(self, run_id: str) -> int:
        """Where a run is, -1 when it is not shown."""
        return self._places.get(run_id, -1)

    def runs_shown(self) -> list[Record]:
        """The runs of the rows, without the groups."""
        return [row for row in self._rows if not isinstance(row, Group)]

    # ------------------------------------------------------------ Qt's questions

    def rowCount(self, parent: QModelIndex = QModelIndex()) -> int:  # noqa: N802, B008
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: QModelIndex = QModelIndex()) -> int:  # noqa: N802, B008
        return 0 if parent.isValid() else len(COLUMNS)

    def headerData(  # noqa: N802
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation != Qt.Orientation.Horizontal:
            return None
        column = COLUMNS[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return column.title
        if role == Qt.ItemDataRole.ToolTipRole:
            return column.tip or f"Sort by {column.title.lower()}"
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(column.numeric)
        return None

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row = self.row_at(index.row())
        if row is None:
            return None
        column = COLUMNS[index.column()]
        if role == ROW_ROLE:
            return row
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(column.numeric)
        if isinstance(row, Group):
            return _group_cell(row, column.key) if role == Qt.ItemDataRole.DisplayRole else None
        if role == Qt.ItemDataRole.DisplayRole:
            return column.text(row)
        if role == Qt.ItemDataRole.ToolTipRole:
            return _tip(row, column.key)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{column.title}: {column.text(row)}"
        return None

    # ------------------------------------------------------------ changes

    def _on_changed(self, ids: set[str]) -> None:
        if self._keeps_order(ids):
            for run_id in ids:
                row = self._places[run_id]
                self._rows[row] = self._store.runs[run_id]
                self.dataChanged.emit(self.index(row, 0), self.index(row, len(COLUMNS) - 1))
        else:
            self._rearrange()

    def _keeps_order(self, ids: set[str]) -> bool:
        if self.view.grouped or self.view.sort in _LIVELY or self._fits is not None:
            return False
        return all(run_id in self._places and run_id in self._store.runs for run_id in ids)

    def _rearrange(self) -> None:
        rows = arrange(self._store.runs.values(), self._fits, self.view)
        same_shape = len(rows) == len(self._rows) and all(
            _identity(new) == _identity(old) for new, old in zip(rows, self._rows, strict=True)
        )
        if same_shape:
            self._rows = rows
            if rows:
                last = self.index(len(rows) - 1, len(COLUMNS) - 1)
                self.dataChanged.emit(self.index(0, 0), last)
            return
        self.layoutAboutToBeChanged.emit()
        kept = [(index, _identity(self._rows[index.row()])) for index in self.persistentIndexList()]
        self._rows = rows
        self._places = {
            row["run_id"]: place for place, row in enumerate(rows) if not isinstance(row, Group)
        }
        for index, identity in kept:
            place = self._places.get(identity, -1)
            target = self.index(place, index.column()) if place >= 0 else QModelIndex()
            self.changePersistentIndex(index, target)
        self.layoutChanged.emit()
        self.arranged.emit()


def _identity(row: Row) -> str:
    return "group:" + "|".join(row.key) if isinstance(row, Group) else str(row["run_id"])


def _alignment(numeric: bool) -> int:
    side = Qt.AlignmentFlag.AlignRight if numeric else Qt.AlignmentFlag.AlignLeft
    return int(side | Qt.AlignmentFlag.AlignVCenter)


def _group_cell(group: Group, key: str) -> str:
    if key == "name":
        return group.title
    if key == "state":
        return f"{group.live} live" if group.live else "ended"
    if key == "return":
        returns = group.returns()
        return f"{returns[0]:.1f} ± {returns[1]:.1f}" if returns else "—"
    if key == "progress":
        return f"{group.progress * 100:.0f} %"
    return ""


def _tip(run: Record, key: str) -> str:
    if key in ("state", "why"):
        return one_line(run) or status_of(run).label
    if key == "created":
        return formatting.moment(run["created_at"])
    if key == "progress":
        progress = run["progress"]
        return f"{progress['step']:,} of {progress['total']:,} steps"
    return COLUMNS[BY_KEY[key]].text(run)
