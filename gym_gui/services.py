"""What every part of the window may lean on, handed down instead of reached for."""

from dataclasses import dataclass

from qtpy.QtCore import QObject, Signal

from gym_gui.background.calls import Calls
from gym_gui.background.daemon_link import DaemonLink
from gym_gui.background.daemons import Daemons
from gym_gui.background.metric_feed import FeedPool
from gym_gui.background.run_cache import RunCache
from gym_gui.background.run_phases import RunPhases
from gym_gui.background.run_settings import RunSettings
from gym_gui.background.streams import StreamKeeper
from gym_gui.background.worker_hooks import WorkerHooks
from gym_gui.models.notices import Notices
from gym_gui.models.run_store import RunStore
from gym_gui.models.window_settings import WindowSettings
from gym_gui.resources.theming import ThemeManager
from gym_gui.widgets.chart_clock import ChartClock
from mosaic.records import RunRecord


class Selection(QObject):
    """Which runs are selected.

    Signals:
        changed: The ids are others.
        current_changed: The run that the run panel shows is another one ("" when none).
    """

    changed = Signal()
    current_changed = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.ids: tuple[str, ...] = ()
        self.current = ""

    def select(self, ids: tuple[str, ...], current: str = "") -> None:
        """Select runs."""
        chosen = current or (ids[0] if ids else "")
        # Listeners redraw; the same selection again must not make them.
        if ids != self.ids:
            self.ids = ids
            self.changed.emit()
        if chosen != self.current:
            self.current = chosen
            self.current_changed.emit(chosen)


@dataclass
class Services:
    """The window's shared parts.

    Attributes:
        daemons: The connections; `calls` is for the window's own work, which waits for none.
    """

    daemons: Daemons
    calls: Calls
    store: RunStore
    themes: ThemeManager
    notices: Notices
    settings: WindowSettings
    selection: Selection
    streams: StreamKeeper
    feeds: FeedPool
    clock: ChartClock
    hooks: WorkerHooks
    cache: RunCache
    run_settings: RunSettings
    phases: RunPhases

    @property
    def link(self) -> DaemonLink:
        """The daemon in front: new runs go there, and all that is not about one run."""
        return self.daemons.front

    def link_of(self, run_id: str) -> DaemonLink:
        """The daemon that has a run."""
        return self.daemons.of(run_id)

    def selected_runs(self) -> tuple[RunRecord, ...]:
        """The selected runs that still exist."""
        runs = (self.store.get(run_id) for run_id in self.selection.ids)
        return tuple(run for run in runs if run is not None)

    def current_run(self) -> RunRecord | None:
        """The only selected run; when several are, the one that the run panel shows."""
        runs = self.selected_runs()
        return runs[0] if len(runs) == 1 else self.store.get(self.selection.current)

    def close(self) -> None:
        """Stop every thread and timer; the daemon and its runs continue."""
        # In this order: who paints, who reads, the connection they use, the files they wrote.
        self.clock.stop()
        self.feeds.forget_resting()
        self.store.close()
        self.run_settings.close()
        self.streams.close()
        self.daemons.close()
        self.calls.close()
        self.cache.close()
        self.themes.close()
