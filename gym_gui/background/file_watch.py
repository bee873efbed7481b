"""Which files a run has, for tabs that appear when their files do."""

from collections.abc import Callable

from qtpy.QtCore import QObject, QTimer, Signal

from gym_gui.background.calls import Call
from gym_gui.background.daemon_link import DaemonLink
from mosaic.client.files import RunFile
from mosaic.presenting.run_status import is_real
from mosaic.records import RunRecord

# W&B and a sweep make their folder or file once in a run's life; two seconds are soon enough.
_EVERY_MS = 2000


class FileWatch(QObject):
    """The names at the top of one run's folder, asked again every few seconds.

    Runs that have ended are watched too: a sweep still writes into its first run's folder.

    Signals:
        changed: The names of the run that is watched are others.
    """

    changed = Signal()

    def __init__(self, link_of: Callable[[str], DaemonLink], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._link_of = link_of
        self._run_id = ""
        self._names: frozenset[str] = frozenset()
        self._asking: Call | None = None
        self._timer = QTimer(self)
        self._timer.setInterval(_EVERY_MS)
        self._timer.timeout.connect(self._ask)

    def watch(self, run: RunRecord | None) -> None:
        """Watch this run, or none."""
        run_id = run.run_id if run is not None and is_real(run) else ""
        if run_id != self._run_id:
            self._names = frozenset()
        if run_id != self._run_id or not self._timer.isActive():
            self.rest()
            self._run_id = run_id
            if run_id:
                self._ask()
                self._timer.start()

    def names(self, run: RunRecord) -> frozenset[str]:
        """What is known to be in a run's folder; nothing for a run that is not watched."""
        return self._names if run.run_id == self._run_id else frozenset()

    def rest(self) -> None:
        """Stop asking; what is known stays known."""
        self._timer.stop()
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    def _ask(self) -> None:
        run_id = self._run_id
        if self._asking is None:
            self._asking = self._link_of(run_id).ask(
                lambda client: client.files(run_id), self._take, lambda _error: self._give_up()
            )

    def _take(self, files: list[RunFile]) -> None:
        self._asking = None
        names = frozenset(file.name for file in files)
        if names != self._names:
            self._names = names
            self.changed.emit()

    def _give_up(self) -> None:
        # The daemon is away or the run was deleted; both are said elsewhere.
        self._asking = None
