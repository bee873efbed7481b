"""The run table's model: rows are arranged here, cells are made only when they are looked at."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from qtpy.QtCore import QAbstractTableModel, QModelIndex, QObject, Qt, Signal

from gym_gui.background.run_settings import RunSettings
from gym_gui.models.run_columns import (
    BY_KEY,
    COLUMNS,
    DAEMON,
    SETTING,
    Column,
    WhereOf,
    column_of,
    group_text,
)
from gym_gui.models.run_order import (
    Group,
    GroupKey,
    Row,
    View,
    arrange,
    group_key,
    is_experiment,
)
from gym_gui.models.run_store import RunStore
from mosaic.errors import FilterError
from mosaic.presenting import formatting
from mosaic.presenting.run_filter import Predicate, compile_filter, named_fields
from mosaic.presenting.run_status import is_real, one_line, status_of
from mosaic.records import RunRecord

ROW_ROLE = Qt.ItemDataRole.UserRole + 1


class RunTableModel(QAbstractTableModel):
    """Shows a `RunStore` through a `View` and a filter.

    The columns of every run come first; chosen metrics and settings follow.

    Signals:
        filter_problem: What is wrong with the filter; empty when it is fine again.
        arranged: The rows are others than before, or in another order.
        edited: A run's id, the column's key and the text that was typed into the cell.
    """

    filter_problem = Signal(str)
    arranged = Signal()
    edited = Signal(str, str, str)

    def __init__(
        self, store: RunStore, settings: RunSettings, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._store = store
        self._settings = settings
        self._rows: list[Row] = []
        self._places: dict[str, int] = {}
        self._filter = ""
        self._fits: Predicate | None = None
        self._where_of: WhereOf | None = None
        self.columns: list[Column] = list(COLUMNS)
        self.view = View()
        store.changed.connect(self._on_changed)
        settings.arrived.connect(self._on_settings)
        self._rearrange()

    # ------------------------------------------------------------ looking at it

    def set_filter(self, text: str) -> None:
        """Show only the runs that fit; a filter that cannot be read changes nothing."""
        self._filter = text
        self._want_settings()
        try:
            self._fits = compile_filter(text, self._names(), self._value_of)
        except FilterError as error:
            self.filter_problem.emit(str(error))
            return
        self.filter_problem.emit("")
        self._rearrange()

    def set_view(self, view: View) -> None:
        """Change how the table is looked at."""
        self.view = view
        self._want_settings()
        self._rearrange()

    def set_more_columns(self, keys: Sequence[str]) -> None:
        """Have these metrics and settings as columns after those of every run."""
        before = len(self.columns)
        if before > len(COLUMNS):
            self.beginRemoveColumns(QModelIndex(), len(COLUMNS), before - 1)
            self.columns = list(COLUMNS)
            self.endRemoveColumns()
        wanted = [key for key in dict.fromkeys(keys) if key not in BY_KEY]
        made = [column_of(key, self._settings.value, self._where_of) for key in wanted]
        more = [column for column in made if column is not None]
        if more:
            self.beginInsertColumns(QModelIndex(), len(COLUMNS), len(COLUMNS) + len(more) - 1)
            self.columns = [*COLUMNS, *more]
            self.endInsertColumns()
        self._want_settings()

    @property
    def names_daemons(self) -> bool:
        """Whether it matters which daemon a run is on."""
        return self._where_of is not None

    def set_where(self, where_of: WhereOf | None) -> None:
        """Name the daemon of each run with this; None when there is only one."""
        self._where_of = where_of

    def repaint(self) -> None:
        """Show what is not in the runs themselves again: whether their daemon answers."""
        if self._rows:
            last = self.index(len(self._rows) - 1, len(self.columns) - 1)
            self.dataChanged.emit(self.index(0, 0), last)

    def place_of(self, key: str) -> int:
        """Where a column is, -1 when it is not there."""
        keys = (column.key for column in self.columns)
        return next((place for place, known in enumerate(keys) if known == key), -1)

    def hides(self, run_id: str) -> bool:
        """Whether the filter keeps a run out of the table."""
        run = self._store.get(run_id)
        return run is not None and self._fits is not None and not self._fits(run)

    def toggle_group(self, key: GroupKey) -> None:
        """Fold or unfold a group."""
        self.set_view(replace(self.view, collapsed=self.view.collapsed ^ {key}))

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column (Qt's own entry point)."""
        if 0 <= column < len(self.columns):
            descending = order == Qt.SortOrder.DescendingOrder
            key = self.columns[column].key
            self.set_view(replace(self.view, sort=key, descending=descending))

    def row_at(self, row: int) -> Row | None:
        """What is in a row."""
        return self._rows[row] if 0 <= row < len(self._rows) else None

    def row_of(self, run_id: str) -> int:
        """Where a run is, -1 when it is not shown."""
        return self._places.get(run_id, -1)

    def group_row_of(self, run_ids: Collection[str]) -> int:
        """The row of the group that has exactly these runs, -1 when there is none."""
        wanted = set(run_ids)
        for place, row in enumerate(self._rows):
            if isinstance(row, Group) and wanted == {run.run_id for run in row.runs}:
                return place
        return -1

    def runs_shown(self) -> list[RunRecord]:
        """The runs of the rows, without the groups; of a folded group too."""
        found: dict[str, RunRecord] = {}
        for row in self._rows:
            for run in row.runs if isinstance(row, Group) else (row,):
                found.setdefault(run.run_id, run)
        return list(found.values())

    # ------------------------------------------------------------ Qt's questions

    def rowCount(self, parent: QModelIndex = QModelIndex()) -> int:  # noqa: N802, B008
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: QModelIndex = QModelIndex()) -> int:  # noqa: N802, B008
        return 0 if parent.isValid() else len(self.columns)

    def headerData(  # noqa: N802
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        if orientation != Qt.Orientation.Horizontal or section >= len(self.columns):
            return None
        column = self.columns[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return column.title
        if role == Qt.ItemDataRole.ToolTipRole:
            return column.tip or f"Sort by {column.title.lower()}"
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(column.numeric)
        return None

    def flags(self, index: QModelIndex) -> Qt.ItemFlag:
        flags = super().flags(index)
        row = self.row_at(index.row())
        if row is None or isinstance(row, Group) or not self.columns[index.column()].editable:
            return flags
        # A note of several lines would be flattened by a one-line editor.
        several_lines = "\n" in (row.notes or "") and self.columns[index.column()].key == "notes"
        return flags | Qt.ItemFlag.ItemIsEditable if is_real(row) and not several_lines else flags

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        row = self.row_at(index.row())
        if row is None:
            return None
        column = self.columns[index.column()]
        if role == ROW_ROLE:
            return row
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(column.numeric)
        if isinstance(row, Group):
            return _group_cell(row, column) if role in _TEXTS else None
        if role == Qt.ItemDataRole.DisplayRole:
            return column.show(row)
        if role == Qt.ItemDataRole.EditRole:
            return row.run_name if column.key == "name" else column.show(row)
        if role == Qt.ItemDataRole.ToolTipRole:
            return _tip(row, column)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{column.title}: {column.show(row)}"
        return None

    def setData(  # noqa: N802
        self, index: QModelIndex, value: object, role: int = Qt.ItemDataRole.EditRole
    ) -> bool:
        row = self.row_at(index.row())
        if role != Qt.ItemDataRole.EditRole or row is None or isinstance(row, Group):
            return False
        text = str(value).strip()
        if text != self.data(index, role):
            self.edited.emit(row.run_id, self.columns[index.column()].key, text)
        return True

    # ------------------------------------------------------------ changes

    def _on_changed(self, ids: set[str]) -> None:
        self._want_settings(run for key in ids if (run := self._store.get(key)) is not None)
        if self._keeps_order(ids):
            for run_id in ids:
                row = self._places[run_id]
                self._rows[row] = self._store.runs[run_id]
                self.dataChanged.emit(self.index(row, 0), self.index(row, len(self.columns) - 1))
        else:
            self._rearrange()

    def _keeps_order(self, ids: set[str]) -> bool:
        # Arranging ten thousand rows at each report of a run would be felt; most move nothing.
        grouped = self.view.grouped or self.view.by_experiment
        if grouped or self._sorted_by().lively or self._fits is not None:
            return False
        return all(run_id in self._places and run_id in self._store.runs for run_id in ids)

    def _sorted_by(self) -> Column:
        place = self.place_of(self.view.sort)
        return self.columns[place if place >= 0 else BY_KEY["created"]]

    def _rearrange(self) -> None:
        rows = arrange(
            self._store.runs.values(), self._fits, self.view, self._sorted_by(), self._group_of
        )
        same_shape = len(rows) == len(self._rows) and all(
            _identity(new) == _identity(old) for new, old in zip(rows, self._rows, strict=True)
        )
        # The same rows in the same order: repaint them and leave selection and scrolling alone.
        if same_shape:
            self._rows = rows
            self.repaint()
            return
        self.layoutAboutToBeChanged.emit()
        # Qt keeps the selection in persistent indexes; they have to follow their runs.
        kept = [(index, _identity(self._rows[index.row()])) for index in self.persistentIndexList()]
        self._rows = rows
        self._places = {
            row.run_id: place for place, row in enumerate(rows) if not isinstance(row, Group)
        }
        for index, identity in kept:
            place = self._places.get(identity, -1)
            target = self.index(place, index.column()) if place >= 0 else QModelIndex()
            self.changePersistentIndex(index, target)
        self.layoutChanged.emit()
        self.arranged.emit()

    # ------------------------------------------------------------ settings of runs

    def _group_of(self, run: RunRecord) -> GroupKey:
        return (*group_key(run), self._settings.fingerprint(run))

    def _names(self) -> set[str]:
        if not named_fields(self._filter):
            return set()
        return {DAEMON, *self._settings.names(), *metric_names(self._store)}

    def _value_of(self, run: RunRecord, name: str) -> object:
        if name == DAEMON:
            return self._where_of(run) if self._where_of is not None else None
        value = run.metrics.get(name)
        return self._settings.value(run, name) if value is None else value

    def _needs_settings(self) -> bool:
        chosen = any(column.key.startswith(SETTING) for column in self.columns)
        return chosen or self.view.grouped or bool(named_fields(self._filter) - {DAEMON})

    def _want_settings(self, runs: Iterable[RunRecord] | None = None) -> None:
        """Settings are read when a column, the grouping or the filter looks at them."""
        if self._needs_settings():
            self._settings.want(list(self._store.runs.values() if runs is None else runs))

    def _on_settings(self) -> None:
        if named_fields(self._filter):
            self.set_filter(self._filter)
        elif self._needs_settings():
            self._rearrange()


_TEXTS = (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole)


def metric_names(store: RunStore) -> list[str]:
    """Every metric that a run has reported."""
    return sorted({name for run in store.runs.values() for name in run.metrics})


def _identity(row: Row) -> str:
    return "group:" + "|".join(row.key) if isinstance(row, Group) else str(row.run_id)


def _alignment(numeric: bool) -> int:
    side = Qt.AlignmentFlag.AlignRight if numeric else Qt.AlignmentFlag.AlignLeft
    return int(side | Qt.AlignmentFlag.AlignVCenter)


def _group_cell(group: Group, column: Column) -> str:
    if column.key == "name":
        return group.title
    if column.key == "state":
        return f"{group.live} live" if group.live else "ended"
    if column.key == "progress":
        return f"{group.progress * 100:.0f} %"
    return group_text(column, group.runs, alike=not is_experiment(group.key))


def _tip(run: RunRecord, column: Column) -> str:
    if column.key in ("state", "why"):
        return one_line(run) or status_of(run).label
    if column.key == "created":
        return formatting.moment(run.created_at)
    if column.key == "progress":
        progress = run.progress
        return f"{progress.step:,} of {progress.total:,} steps"
    text = str(run.notes or "") if column.key == "notes" else column.show(run)
    if column.editable and column.key != "name":
        return f"{text}\n\nDouble-click to edit (F2)".strip()
    return text
