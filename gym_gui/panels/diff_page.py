"""The page of the analyse dock that shows the configs of runs side by side."""

from collections.abc import Mapping

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QCheckBox, QHeaderView, QTableWidget, QTableWidgetItem, QWidget

from gym_gui.models.config_diff import diff
from gym_gui.services import Services
from gym_gui.widgets.controls import plain_table
from gym_gui.widgets.layouts import column, row
from gym_gui.widgets.messages import EmptyState
from gym_gui.widgets.qt_types import sure
from mosaic.client import TrainerClient
from mosaic.presenting.run_status import is_real, title_with_seed

Document = Mapping[str, object]


class DiffPage(QWidget):
    """A table of settings, those that differ first."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self._shown: tuple[str, ...] = ()
        self.only = QCheckBox("Only differences")
        self.only.setChecked(True)
        self.only.toggled.connect(lambda _on: self._fill())
        self.table = QTableWidget()
        plain_table(self.table)
        self.table.setAlternatingRowColors(True)
        self.table.setAccessibleName("Configs side by side")
        self._empty = EmptyState("Nothing to compare", "Select two or more runs in the table.")
        self._documents: list[Document] = []
        self._names: list[str] = []
        self.setLayout(column(row(self.only, 1), self.table, self._empty, margin=8))
        self.table.hide()
        services.themes.changed.connect(self._fill)

    def show_runs(self, ids: tuple[str, ...]) -> None:
        """Read the configs of runs and compare them."""
        if ids == self._shown:
            return
        self._shown = ids
        known = map(self._services.store.get, ids)
        runs = [run for run in known if run is not None and is_real(run)]
        names = [title_with_seed(run) for run in runs]

        def take(documents: dict[str, Document]) -> None:
            if self._shown == ids:
                self._documents, self._names = list(documents.values()), names
                self._fill()

        self._services.daemons.ask_each(
            [run.run_id for run in runs], TrainerClient.config, take, self._failed
        )

    def _failed(self, error: Exception) -> None:
        self._services.notices.error("A config could not be read", error)

    def _fill(self) -> None:
        rows = diff(self._documents)
        if self.only.isChecked():
            rows = [one for one in rows if one.differs]
        enough = len(self._documents) >= 2
        self.table.setVisible(bool(rows) and enough)
        self._empty.setVisible(not rows or not enough)
        if enough and not rows:
            self._empty.say("No differences", "These configs are the same in every setting.")
        elif not enough:
            self._empty.say("Nothing to compare", "Select two or more runs in the table.")
        self.table.setColumnCount(1 + len(self._names))
        self.table.setHorizontalHeaderLabels(["Setting", *self._names])
        for at, name in enumerate(self._names, start=1):
            sure(self.table.horizontalHeaderItem(at)).setToolTip(name)
        self.table.setRowCount(len(rows))
        accent = self._services.themes.colour("accent")
        for place, one in enumerate(rows):
            for at, text in enumerate((one.key, *one.values)):
                item = QTableWidgetItem(text)
                item.setToolTip(text)
                if one.differs and at:
                    item.setForeground(accent)
                self.table.setItem(place, at, item)
        header = sure(self.table.horizontalHeader())
        # Names of runs begin alike and end with their seed.
        header.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
