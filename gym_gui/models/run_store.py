"""Every run the window knows of, kept up to date by WatchRuns and by what it just asked for."""

from collections.abc import Iterable

from qtpy.QtCore import QObject, QTimer, Signal

from mosaic.presenting.run_status import is_real
from mosaic.records import RunChange, RunRecord, RunRemoved, RunUpdated, SnapshotEnd

# Several changes of one moment are shown together; below what the eye notices.
_COALESCE_MS = 60


class RunStore(QObject):
    """The runs by id.

    A run that was just submitted is shown at once, under an id of the window's own, until the
    daemon names it.

    Signals:
        changed: The ids that changed, at most every few hundredths of a second.
        ended: A run that this window saw alive has ended.
        settled: The first snapshot is complete.
    """

    changed = Signal(set)
    ended = Signal(object)
    settled = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.runs: dict[str, RunRecord] = {}
        self.complete = False
        self._generation = ""
        self._unseen: set[str] = set()
        self._dirty: set[str] = set()
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_COALESCE_MS)
        self._timer.timeout.connect(self._announce)

    def get(self, run_id: str) -> RunRecord | None:
        """A run, or None when it is not known (any more)."""
        return self.runs.get(run_id)

    def announced(self, run_id: str) -> bool:
        """Whether everything known of a run has been passed on: models lag behind until then."""
        return run_id not in self._dirty

    def apply(self, changes: Iterable[RunChange]) -> None:
        """Apply a batch of WatchRuns records."""
        for change in changes:
            if change.generation != self._generation:
                # Another daemon, or the same one restarted: what its snapshot does not name is
                # gone. Pending rows stay, because no snapshot can name them.
                self._generation = change.generation
                self._unseen = {key for key, run in self.runs.items() if is_real(run)}
            self._apply_one(change)
        if self._dirty and not self._timer.isActive():
            self._timer.start()

    def put(self, run: RunRecord) -> None:
        """Keep the answer of a call, unless something newer is known."""
        # The watch stream may have been faster than the answer.
        known = self.runs.get(run.run_id)
        if known is None or known.version <= run.version:
            self._store(run)
            self._timer.start()

    def drop(self, run_id: str) -> None:
        """Forget a run."""
        if self.runs.pop(run_id, None) is not None:
            self._dirty.add(run_id)
            self._timer.start()

    def close(self) -> None:
        """Announce nothing more."""
        # Threads may still deliver a last batch while the widgets are being destroyed.
        self._timer.stop()
        self.blockSignals(True)

    def _apply_one(self, change: RunChange) -> None:
        if isinstance(change, RunUpdated):
            self._unseen.discard(change.run.run_id)
            self._store(change.run)
        elif isinstance(change, RunRemoved):
            if self.runs.pop(change.run_id, None) is not None:
                self._dirty.add(change.run_id)
        elif isinstance(change, SnapshotEnd):
            for run_id in self._unseen:
                self.runs.pop(run_id, None)
            self._dirty |= self._unseen
            self._unseen = set()
            if not self.complete:
                self.complete = True
                self.settled.emit()

    def _store(self, run: RunRecord) -> None:
        before = self.runs.get(run.run_id)
        self.runs[run.run_id] = run
        self._dirty.add(run.run_id)
        if before is not None and before.live and run.ended:
            self.ended.emit(run)

    def _announce(self) -> None:
        dirty, self._dirty = self._dirty, set()
        if dirty:
            self.changed.emit(dirty)
