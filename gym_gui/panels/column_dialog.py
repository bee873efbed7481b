"""Choosing the run table's columns: facts, metrics and settings, found by typing."""

from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QWidget,
)

from gym_gui.models.run_columns import BY_KEY, COLUMNS, METRIC, SETTING
from gym_gui.models.run_table import metric_names
from gym_gui.services import Services
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column
from gym_gui.widgets.qt_types import sure
from gym_gui.widgets.run_table_view import RunTableView

_KEY_ROLE = Qt.ItemDataRole.UserRole


class ColumnDialog(QDialog):
    """Every column there can be; a tick shows it at once."""

    def __init__(self, parent: QWidget, services: Services, table: RunTableView) -> None:
        super().__init__(parent)
        self.setWindowTitle("Columns of the run table")
        self._services, self._table = services, table
        self._filling = False
        self.search = QLineEdit()
        self.search.setPlaceholderText("Search columns: learning rate, loss, tags …")
        self.search.setClearButtonEnabled(True)
        self.search.setAccessibleName("Search columns")
        self.search.textChanged.connect(lambda _text: self._narrow())
        self.list = QListWidget()
        self.list.setObjectName("choices")
        self.list.setAccessibleName("Columns")
        self.list.itemChanged.connect(self._on_tick)
        hint = label(
            "Drag a header in the table to move its column. Save the result as a view.",
            "muted",
            wrap=True,
        )
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        self.setLayout(column(self.search, self.list, hint, buttons, margin=14))
        self.resize(420, 560)
        services.run_settings.want(list(services.store.runs.values()))
        services.run_settings.arrived.connect(self._fill)
        self._fill()

    def tick(self, key: str, shown: bool = True) -> None:
        """Show or hide a column."""
        for place in range(self.list.count()):
            item = sure(self.list.item(place))
            if item.data(_KEY_ROLE) == key:
                state = Qt.CheckState.Checked if shown else Qt.CheckState.Unchecked
                item.setCheckState(state)

    def offered(self) -> list[str]:
        """Every column that can be chosen."""
        found = (sure(self.list.item(place)).data(_KEY_ROLE) for place in range(self.list.count()))
        return [key for key in found if key]

    def _fill(self) -> None:
        shown = {one.key for one in self._table.visible_columns()}
        metrics = [(METRIC + name, name) for name in metric_names(self._services.store)]
        settings = [(SETTING + name, name) for name in self._services.run_settings.names()]
        groups = (
            ("Facts", [(one.key, one.title) for one in COLUMNS]),
            ("Metrics, newest value", metrics),
            ("Settings of the config", settings),
        )
        at = self.list.currentRow()
        # The list reports every tick, also those that are set here.
        self._filling = True
        self.list.clear()
        for title, entries in groups:
            if entries:
                self._add_heading(title)
            for key, text in entries:
                self._add(key, text, key in shown)
        self._filling = False
        self._narrow()
        # Row 0 is a heading.
        self.list.setCurrentRow(max(1, at))

    def _add_heading(self, title: str) -> None:
        item = QListWidgetItem(title)
        item.setFlags(Qt.ItemFlag.NoItemFlags)
        font = item.font()
        font.setBold(True)
        item.setFont(font)
        self.list.addItem(item)

    def _add(self, key: str, text: str, shown: bool) -> None:
        item = QListWidgetItem(text)
        item.setData(_KEY_ROLE, key)
        enabled = Qt.ItemFlag.ItemIsEnabled if key != "name" else Qt.ItemFlag.NoItemFlags
        item.setFlags(Qt.ItemFlag.ItemIsUserCheckable | Qt.ItemFlag.ItemIsSelectable | enabled)
        item.setCheckState(Qt.CheckState.Checked if shown else Qt.CheckState.Unchecked)
        self.list.addItem(item)

    def _narrow(self) -> None:
        wanted = self.search.text().strip().lower().replace(" ", "_")
        for place in range(self.list.count()):
            item = sure(self.list.item(place))
            heading = item.data(_KEY_ROLE) is None
            fits = wanted in item.text().lower().replace(" ", "_")
            item.setHidden(bool(wanted) and (heading or not fits))

    def _on_tick(self, item: QListWidgetItem) -> None:
        key = item.data(_KEY_ROLE)
        if not self._filling and key and (key in BY_KEY or ":" in key):
            self._table.toggle_column(key, item.checkState() == Qt.CheckState.Checked)
