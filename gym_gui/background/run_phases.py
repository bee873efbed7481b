"""Where the phases of runs began: read from their events, once for each of their versions."""

from collections.abc import Callable

from qtpy.QtCore import QObject, Signal

from gym_gui.background.daemon_link import DaemonLink
from gym_gui.models.phases import Mark, phase_marks
from gym_gui.models.run_store import RunStore
from mosaic.records import RunEvent

# Only these train, and so can go from phase to phase or from stage to stage.
_MODES = frozenset({"train", "resume_training", "script"})


class RunPhases(QObject):
    """What is known about the phases of the runs that are looked at.

    Signals:
        known: The phases of this run are others than before.
    """

    known = Signal(str)

    def __init__(self, link_of: Callable[[str], DaemonLink], store: RunStore) -> None:
        super().__init__()
        self._link_of, self._store = link_of, store
        self._marks: dict[str, tuple[Mark, ...]] = {}
        self._read: dict[str, int] = {}

    def of(self, run_id: str) -> tuple[Mark, ...]:
        """Where each phase of a run began, and its name; asks for what is not known yet."""
        run = self._store.get(run_id)
        # Each event is a new version, also the one that says that a phase has begun.
        if run is not None and run.mode in _MODES and self._read.get(run_id) != run.version:
            self._read[run_id] = run.version
            self._link_of(run_id).ask(
                lambda client: client.events(run_id),
                lambda events: self._take(run_id, events),
                # Asked again with the next look; a chart without marks needs no message.
                lambda _error: self._read.pop(run_id, None),
            )
        return self._marks.get(run_id, ())

    def _take(self, run_id: str, events: list[RunEvent]) -> None:
        marks = phase_marks(events)
        if marks != self._marks.get(run_id, ()):
            self._marks[run_id] = marks
            self.known.emit(run_id)
