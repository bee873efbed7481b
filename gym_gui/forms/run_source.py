"""Choosing the run, and the checkpoint, that a new run starts from."""

from collections.abc import Sequence

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QComboBox, QFileDialog, QLineEdit, QWidget

from gym_gui.forms.base import form_layout
from gym_gui.services import Services
from gym_gui.widgets.controls import button, modest
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, row
from mosaic.presenting import formatting
from mosaic.presenting.run_status import title_of
from mosaic.records import CheckpointRecord, RunRecord

NEWEST = "newest"


class RunSource(QWidget):
    """A run that has checkpoints of one kind, or a file.

    Signals:
        changed: Another run or checkpoint was chosen.
    """

    changed = Signal()

    def __init__(self, services: Services, kind: str, pattern: str) -> None:
        super().__init__()
        self._services = services
        self._kind = kind
        self._pattern = pattern
        self._worker = ""
        self.runs = QComboBox()
        self.runs.setAccessibleName("Run")
        self.checkpoints = QComboBox()
        self.checkpoints.setAccessibleName("Checkpoint")
        self.file = QLineEdit()
        self.file.setPlaceholderText("or a file of your own")
        self.file.setAccessibleName("Checkpoint file")
        for box in (self.runs, self.checkpoints):
            modest(box)
        form = form_layout()
        form.addRow("Run", self.runs)
        form.addRow("Checkpoint", self.checkpoints)
        form.addRow("File", row(self.file, button("Choose …", self._choose)))
        self._hint = label("", "muted", wrap=True)
        self.setLayout(column(form, self._hint, spacing=6))
        self.runs.currentIndexChanged.connect(lambda _place: self._on_run())
        self.checkpoints.currentIndexChanged.connect(lambda _place: self.changed.emit())
        self.file.textChanged.connect(lambda _text: self.changed.emit())
        services.store.changed.connect(lambda _ids: self.fill())

    def set_worker(self, worker: str) -> None:
        """Offer runs of this worker."""
        self._worker = worker
        self.fill()

    def fill(self) -> None:
        """List the runs that can be used; the choice stays when it can."""
        usable = [
            run
            for run in self._services.store.runs.values()
            if run.worker == self._worker and run.newest_checkpoint(self._kind) is not None
        ]
        usable.sort(key=lambda run: run.created_at, reverse=True)
        ids = [run.run_id for run in usable]
        if ids == [self.runs.itemData(place) for place in range(self.runs.count())]:
            return
        before = self.run_id
        # Refilling passes through other runs; the form would follow each of them.
        self.runs.blockSignals(True)
        self.runs.clear()
        # Older runs are reached from the table, whose menu brings them here.
        for run in usable[:500]:
            seed = "" if run.seed is None else f" · seed {run.seed}"
            when = formatting.ago(run.created_at)
            self.runs.addItem(f"{title_of(run)}{seed} · {when}", run.run_id)
        self.runs.blockSignals(False)
        self.choose(before)
        self._say("" if usable else "No run has saved a checkpoint of this kind yet.")

    def choose(self, run_id: str) -> None:
        """Choose a run."""
        place = self.runs.findData(run_id)
        self.runs.setCurrentIndex(max(0, place) if self.runs.count() else -1)
        self._on_run()

    @property
    def run_id(self) -> str:
        """The chosen run's id."""
        return str(self.runs.currentData() or "")

    @property
    def run(self) -> RunRecord | None:
        """The chosen run."""
        return self._services.store.get(self.run_id)

    @property
    def own_file(self) -> bool:
        """Whether a file of one's own was given; it counts more than the chosen run."""
        return bool(self.file.text().strip())

    def path(self) -> str:
        """The path of the chosen checkpoint; the folder of all when the newest is wanted."""
        if self.own_file:
            return str(self.file.text().strip())
        if self.run is None:
            return ""
        chosen = self.checkpoints.currentData()
        inside = "checkpoints" if chosen in (None, NEWEST) else chosen
        return f"{self.run.run_dir}/{inside}"

    def _on_run(self) -> None:
        self.checkpoints.blockSignals(True)
        self.checkpoints.clear()
        if self.run is not None:
            self.checkpoints.addItem("Newest", NEWEST)
        self.checkpoints.blockSignals(False)
        self.changed.emit()
        self._ask_for_kept(self.run_id)

    def _ask_for_kept(self, run_id: str) -> None:
        """List what is still on the run's disk; its record also names what was removed."""
        if not run_id:
            return
        self._services.link_of(run_id).ask(
            lambda client: client.kept_checkpoints(run_id, self._kind),
            lambda kept: self._list(run_id, kept),
            lambda error: self._say(f"Its checkpoints could not be listed: {error}"),
        )

    def _list(self, run_id: str, kept: Sequence[CheckpointRecord]) -> None:
        # Another run may have been chosen meanwhile, or the same one twice.
        if run_id != self.run_id or self.checkpoints.count() > 1:
            return
        self.checkpoints.blockSignals(True)
        for item in sorted(kept, key=lambda one: -one.step):
            text = f"step {item.step:,} · {formatting.ago(item.saved_at)}"
            self.checkpoints.addItem(text, item.path)
        self.checkpoints.blockSignals(False)

    def _say(self, text: str) -> None:
        self._hint.setText(text)
        self._hint.setVisible(bool(text))

    def _choose(self) -> None:
        dialog = QFileDialog(self, "Choose a checkpoint", "", self._pattern)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(self.file.setText)
        dialog.open()
