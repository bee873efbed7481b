"""The table of runs: how it looks, which columns it has, and what is typed into its cells."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

from qtpy.QtCore import (
    QEvent,
    QItemSelection,
    QItemSelectionModel,
    QItemSelectionRange,
    QModelIndex,
    QPoint,
    Qt,
    Signal,
)
from qtpy.QtGui import QKeySequence, QShortcut
from qtpy.QtWidgets import QAbstractItemView, QHeaderView, QMenu, QTableView

from gym_gui.models.run_columns import BY_KEY, COLUMNS, DAEMON, Column, WhereOf
from gym_gui.models.run_order import Group
from gym_gui.models.run_table import RunTableModel
from gym_gui.models.table_look import TableLook
from gym_gui.resources.theming import ThemeManager
from gym_gui.widgets.delegates import ProgressDelegate, StateDelegate, ThemedDelegate
from gym_gui.widgets.qt_types import sure

_ROW_HEIGHT = 30
_ITS_OWN = 0
NORMAL_POINTS = 10.0


class RunTableView(QTableView):
    """Rows of runs.

    Signals:
        opened: A run was double-clicked, or Return was pressed on it.
        columns_wanted: The user asks for more columns than the header's menu has.
    """

    opened = Signal()
    columns_wanted = Signal()

    def __init__(self, model: RunTableModel, themes: ThemeManager) -> None:
        super().__init__()
        self._model = model
        self._scale = 1.0
        self.setModel(model)
        self.setAccessibleName("Runs")
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        # Tab leaves the table; the arrow keys move inside it.
        self.setTabKeyNavigation(False)
        self.setShowGrid(False)
        self.setWordWrap(False)
        sure(self.verticalHeader()).hide()
        sure(self.verticalHeader()).setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        sure(self.verticalHeader()).setDefaultSectionSize(_ROW_HEIGHT)
        header = sure(self.horizontalHeader())
        header.setSectionsMovable(True)
        header.setHighlightSections(False)
        header.setTextElideMode(Qt.TextElideMode.ElideRight)
        header.setStretchLastSection(True)
        header.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        header.customContextMenuRequested.connect(self._open_header_menu)
        self.setItemDelegate(ThemedDelegate(themes, self))
        self.setItemDelegateForColumn(BY_KEY["state"], StateDelegate(themes, self))
        self.setItemDelegateForColumn(BY_KEY["progress"], ProgressDelegate(themes, self))
        self.setSortingEnabled(True)
        self.doubleClicked.connect(self._on_double_click)
        for key in ("Return", "Enter"):
            shortcut = QShortcut(QKeySequence(key), self)
            shortcut.setContext(Qt.ShortcutContext.WidgetShortcut)
            shortcut.activated.connect(lambda: self._open(self.currentIndex()))
        self.apply_look(TableLook())

    # ------------------------------------------------------------ columns

    def visible_columns(self) -> list[Column]:
        """The columns in sight, from left to right."""
        header = sure(self.horizontalHeader())
        places = [header.logicalIndex(visual) for visual in range(header.count())]
        return [self._model.columns[at] for at in places if not header.isSectionHidden(at)]

    def show_columns(self, columns: Sequence[tuple[str, int]]) -> None:
        """Show these columns, in this order, each with its width, and no others."""
        header = sure(self.horizontalHeader())
        # While columns move, stretching would change the widths that are being restored.
        header.setStretchLastSection(False)
        if all(key != "name" for key, _ in columns):  # without names it would be of no use
            columns = [("name", COLUMNS[BY_KEY["name"]].width), *columns]
        if self._model.names_daemons and all(key != DAEMON for key, _ in columns):
            # Beside the name: what is cancelled is cancelled there.
            place = [key for key, _ in columns].index("name") + 1
            columns = [*columns[:place], (DAEMON, _ITS_OWN), *columns[place:]]
        self._model.set_more_columns([key for key, _ in columns])
        widths = {self._model.place_of(key): width for key, width in columns}
        widths.pop(-1, None)
        for place in range(header.count()):
            header.setSectionHidden(place, place not in widths)
        for visual, (place, width) in enumerate(widths.items()):
            header.moveSection(header.visualIndex(place), visual)
            usual = width or self._model.columns[place].width
            header.resizeSection(place, round(usual * self._scale))
        header.setStretchLastSection(True)
        self._select_whole_rows()

    def _select_whole_rows(self) -> None:
        """A row that was selected before a column came is selected in that column too."""
        whole = QItemSelection()
        # A list of ranges, which Qt's types do not say.
        selected = cast(Iterable[QItemSelectionRange], sure(self.selectionModel()).selection())
        for part in selected:
            first = self._model.index(part.top(), 0)
            whole.select(first, self._model.index(part.bottom(), len(self._model.columns) - 1))
        sure(self.selectionModel()).select(whole, QItemSelectionModel.SelectionFlag.Select)

    def toggle_column(self, key: str, shown: bool) -> None:
        """Hide a column, or show it: a chosen metric or setting right beside the return."""
        chosen = [(c.key, self._width(c)) for c in self.visible_columns() if c.key != key]
        if shown:
            keys = [one for one, _ in chosen]
            place = keys.index("return") + 1 if ":" in key and "return" in keys else len(keys)
            while place < len(keys) and ":" in keys[place]:
                place += 1
            chosen.insert(place, (key, _ITS_OWN))
        self.show_columns(chosen)

    def name_daemons(self, where_of: WhereOf | None) -> None:
        """Have a column with the daemon of each run, or none."""
        columns = [(c.key, self._width(c)) for c in self.visible_columns() if c.key != DAEMON]
        self._model.set_where(where_of)
        self.show_columns(columns)

    def changeEvent(self, event: QEvent | None) -> None:  # noqa: N802
        super().changeEvent(event)
        if event is not None and event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            height = max(_ROW_HEIGHT, self.fontMetrics().height() + 13)
            sure(self.verticalHeader()).setDefaultSectionSize(height)
            self._rescale(self.font().pointSizeF() / NORMAL_POINTS)

    def _rescale(self, scale: float) -> None:
        """Columns grow and shrink with the text."""
        if scale > 0 and scale != self._scale:
            columns = [(c.key, self._width(c)) for c in self.visible_columns()]
            self._scale = scale
            self.show_columns(columns)

    def _width(self, column: Column) -> int:
        """How wide a column is at the normal font size.

        One that merely fills the rest keeps its own width.
        """
        header = sure(self.horizontalHeader())
        place = self._model.place_of(column.key)
        last = header.visualIndex(place) == header.count() - header.hiddenSectionCount() - 1
        width = round(header.sectionSize(place) / self._scale)
        return min(width, column.width) if last else width

    # ------------------------------------------------------------ the whole look

    def look(self, filter_text: str) -> TableLook:
        """How the table is looked at now, for storing."""
        view = self._model.view
        columns = tuple((c.key, self._width(c)) for c in self.visible_columns())
        return TableLook(
            filter_text, view.sort, view.descending, view.grouped, columns, view.by_experiment
        )

    def apply_look(self, look: TableLook) -> None:
        """Columns, order and grouping as stored; the filter is the panel's."""
        self.show_columns(look.columns)
        place = self._model.place_of(look.sort)
        down, up = Qt.SortOrder.DescendingOrder, Qt.SortOrder.AscendingOrder
        self._model.set_view(
            replace(self._model.view, grouped=look.grouped, by_experiment=look.by_experiment)
        )
        self.sortByColumn(
            place if place >= 0 else BY_KEY["created"], down if look.descending else up
        )

    # ------------------------------------------------------------ using it

    def edit_current(self, keys: Sequence[str] = ()) -> bool:
        """Edit the cell the keyboard is on, if it can be; False when it cannot."""
        index = self.currentIndex()
        editable = bool(index.isValid() and index.flags() & Qt.ItemFlag.ItemIsEditable)
        if editable and (not keys or self._model.columns[index.column()].key in keys):
            self.edit(index)
            return True
        return False

    def _on_double_click(self, index: QModelIndex) -> None:
        if not self.edit_current(("tags", "notes")):
            self._open(index)

    def _open(self, index: QModelIndex) -> None:
        item = self._model.row_at(index.row())
        if isinstance(item, Group):
            self._model.toggle_group(item.key)
        elif item is not None:
            self.opened.emit()

    def _open_header_menu(self, position: QPoint) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        shown = {column.key for column in self.visible_columns()}
        for column in self._model.columns:
            entry = sure(menu.addAction(column.title))
            entry.setCheckable(True)
            entry.setChecked(column.key in shown)
            entry.setEnabled(column.key not in ("name", DAEMON))
            entry.toggled.connect(lambda on, key=column.key: self.toggle_column(key, on))
        menu.addSeparator()
        sure(menu.addAction("Metrics and settings …")).triggered.connect(self.columns_wanted)
        menu.popup(sure(self.horizontalHeader()).mapToGlobal(position))
