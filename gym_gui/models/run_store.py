"""Every run the window knows of, kept up to date by WatchRuns and by what it just asked for."""

from collections.abc import Iterable, Sequence

from qtpy.QtCore import QObject, QTimer, Signal

from mosaic.presenting.run_status import is_real
from mosaic.records import RunChange, RunRecord, RunRemoved, RunUpdated, SnapshotEnd

# Several changes of one moment are shown together; below what the eye notices.
_COALESCE_MS = 60
# Holds what no daemon has named yet: pending rows, and answers that came before the watch stream.
_NOT_NAMED = ""


class RunStore(QObject):
    """The runs by id, of every daemon that the window is connected to.

    A run that was just submitted is shown at once, under an id of the window's own, until the
    daemon names it.

    Two daemons may hold the same run: one of them imported it from the other's archive. It is one
    run and shown once, as the daemon knows it on which it is alive, else the one listed first.

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
        self._order: Sequence[str] = ()
        self._held: dict[str, dict[str, RunRecord]] = {}
        self._generations: dict[str, str] = {}
        self._unseen: dict[str, set[str]] = {}
        self._dirty: set[str] = set()
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_COALESCE_MS)
        self._timer.timeout.connect(self._announce)

    def get(self, run_id: str) -> RunRecord | None:
        """A run, or None when it is not known (any more)."""
        return self.runs.get(run_id)

    def holders(self, run_id: str) -> list[str]:
        """The names of the daemons that hold a run; commands go to the first."""
        held = self._held.get(run_id, {})
        named = [name for name in held if name != _NOT_NAMED]
        return sorted(named, key=lambda name: self._rank(name, held)) if len(named) > 1 else named

    def announced(self, run_id: str) -> bool:
        """Whether everything known of a run has been passed on: models lag behind until then."""
        return run_id not in self._dirty

    def set_order(self, daemons: Sequence[str]) -> None:
        """The daemons as they are listed; the runs of others are forgotten."""
        self._order = tuple(daemons)
        for gone in self._generations.keys() - set(daemons):
            del self._generations[gone]
            self._unseen.pop(gone, None)
            for run_id in [one for one, held in self._held.items() if gone in held]:
                self._release(run_id, gone)
        self._announce_soon()

    def apply(self, changes: Iterable[RunChange], daemon: str = "") -> None:
        """Apply a batch of WatchRuns records of one daemon."""
        for change in changes:
            if change.generation != self._generations.get(daemon):
                # Another daemon, or the same one restarted: what its snapshot does not name is
                # gone. Pending rows stay, because no snapshot can name them.
                self._generations[daemon] = change.generation
                self._unseen[daemon] = {
                    key
                    for key, held in self._held.items()
                    if daemon in held and is_real(held[daemon])
                }
            self._apply_one(change, daemon)
        self._announce_soon()

    def put(self, run: RunRecord, daemon: str = "") -> None:
        """Keep the answer of a call, unless something newer is known.

        Args:
            run: The answer.
            daemon: Who gave it; needed for a run that the window may not know yet.
        """
        source = daemon or next(iter(self.holders(run.run_id)), _NOT_NAMED)
        # The watch stream may have been faster than the answer.
        known = self._held.get(run.run_id, {}).get(source)
        if known is None or known.version <= run.version:
            self._store(run, source)
            self._announce_soon()

    def drop(self, run_id: str) -> None:
        """Forget a run where commands go; another daemon may still hold it."""
        self._release(run_id, next(iter(self.holders(run_id)), _NOT_NAMED))
        self._announce_soon()

    def close(self) -> None:
        """Announce nothing more."""
        # Threads may still deliver a last batch while the widgets are being destroyed.
        self._timer.stop()
        self.blockSignals(True)

    def _apply_one(self, change: RunChange, daemon: str) -> None:
        if isinstance(change, RunUpdated):
            self._unseen[daemon].discard(change.run.run_id)
            self._store(change.run, daemon)
        elif isinstance(change, RunRemoved):
            self._release(change.run_id, daemon)
        elif isinstance(change, SnapshotEnd):
            for run_id in self._unseen[daemon]:
                self._release(run_id, daemon)
            self._unseen[daemon] = set()
            if not self.complete:
                self.complete = True
                self.settled.emit()

    def _store(self, run: RunRecord, daemon: str) -> None:
        before = self.runs.get(run.run_id)
        held = self._held.setdefault(run.run_id, {})
        held[daemon] = run
        if daemon != _NOT_NAMED:
            held.pop(_NOT_NAMED, None)
        shown = held[min(held, key=lambda name: self._rank(name, held))]
        self.runs[run.run_id] = shown
        self._dirty.add(run.run_id)
        if before is not None and before.live and shown.ended:
            self.ended.emit(shown)

    def _release(self, run_id: str, daemon: str) -> None:
        """One daemon holds a run no more; the run stays as long as another one does."""
        held = self._held.get(run_id, {})
        if held.pop(daemon, None) is None:
            return
        if held:
            self.runs[run_id] = held[min(held, key=lambda name: self._rank(name, held))]
        else:
            del self._held[run_id]
            del self.runs[run_id]
        self._dirty.add(run_id)

    def _rank(self, daemon: str, held: dict[str, RunRecord]) -> tuple[bool, int]:
        place = self._order.index(daemon) if daemon in self._order else len(self._order)
        return (not held[daemon].live, place)

    def _announce_soon(self) -> None:
        if self._dirty and not self._timer.isActive():
            self._timer.start()

    def _announce(self) -> None:
        dirty, self._dirty = self._dirty, set()
        if dirty:
            self.changed.emit(dirty)
