"""The trash: runs that were deleted and can still come back."""

from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QHeaderView,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from gym_gui.services import Services
from gym_gui.widgets.controls import button, plain_table
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, row
from gym_gui.widgets.qt_types import sure
from mosaic.client import TrainerClient
from mosaic.presenting import formatting
from mosaic.presenting.run_status import status_of, title_of
from mosaic.records import RunRecord

_COLUMNS = ("Name", "Algorithm", "Environment", "Seed", "Outcome", "Created")
# More than anyone looks through; older ones are listed by `mosaic runs --deleted`.
_MOST = 500
_ID_ROLE = Qt.ItemDataRole.UserRole


class TrashDialog(QDialog):
    """Lists deleted runs, newest first; any of them can be restored."""

    def __init__(self, parent: QWidget, services: Services) -> None:
        super().__init__(parent)
        self._services = services
        # The list is of one daemon, whichever is in front by the time a run is restored.
        self._link = services.link
        several = services.daemons.several
        self.setWindowTitle(f"Trash of {services.link.name}" if several else "Trash")
        self._text = label("Reading the trash …", "muted", wrap=True)
        self.table = QTableWidget()
        plain_table(self.table)
        self.table.setAccessibleName("Deleted runs")
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setColumnCount(len(_COLUMNS))
        self.table.setHorizontalHeaderLabels(_COLUMNS)
        sure(self.table.horizontalHeader()).setSectionResizeMode(
            QHeaderView.ResizeMode.ResizeToContents
        )
        self.table.itemSelectionChanged.connect(self._enable)
        self.restore = button("Restore", self._restore, "primary")
        close = button("Close", self.reject)
        self.setLayout(column(self._text, self.table, row(1, close, self.restore), margin=16))
        self.resize(760, 460)
        self._enable()
        self._read()

    @property
    def selected(self) -> list[str]:
        """The ids of the runs that are selected."""
        rows = sure(self.table.selectionModel()).selectedRows()
        return [str(index.data(_ID_ROLE)) for index in rows]

    def _read(self) -> None:
        self._link.ask(_deleted, self._show, self._failed)

    def _failed(self, error: Exception) -> None:
        self._text.setText(f"The trash could not be read: {error}")

    def _show(self, runs: list[RunRecord]) -> None:
        self._text.setText(
            "A run stays here for as many days as the daemon's setting `trash_days` says."
            if runs
            else "The trash is empty."
        )
        self.table.setRowCount(len(runs))
        for place, run in enumerate(runs):
            texts = (
                title_of(run),
                run.algo or run.worker,
                run.env_id,
                "" if run.seed is None else str(run.seed),
                status_of(run).label,
                formatting.moment(run.created_at),
            )
            for at, text in enumerate(texts):
                item = QTableWidgetItem(text)
                item.setData(_ID_ROLE, run.run_id)
                self.table.setItem(place, at, item)
        if runs:
            self.table.selectRow(0)
        self.table.setFocus()

    def _enable(self) -> None:
        self.restore.setEnabled(bool(self.selected))

    def _restore(self) -> None:
        chosen = self.selected

        def restore(client: TrainerClient) -> list[RunRecord]:
            return [client.restore(run_id) for run_id in chosen]

        def done(runs: list[RunRecord]) -> None:
            for run in runs:
                self._services.store.put(run, self._link.name)
            self._services.selection.select(tuple(run.run_id for run in runs))
            self._read()

        self._link.ask(
            restore, done, lambda error: self._services.notices.error("Not restored", error)
        )


def _deleted(client: TrainerClient) -> list[RunRecord]:
    return list(client.list_runs(deleted=True, page_size=_MOST).runs)
