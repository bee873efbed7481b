"""The run dock: the tabs of the run that is selected."""

from qtpy.QtCore import Signal
from qtpy.QtGui import QHideEvent, QShowEvent
from qtpy.QtWidgets import QStackedWidget, QTabWidget, QWidget

from gym_gui.background.file_watch import FileWatch
from gym_gui.presenters.tab_registry import (
    FAILURE,
    LIVE,
    OVERVIEW,
    REPLAY,
    TABS,
    PresenterRegistry,
)
from gym_gui.services import Services
from gym_gui.tabs.base import RunTab
from gym_gui.widgets.layouts import as_panel, column
from gym_gui.widgets.messages import EmptyState
from mosaic.records import RunRecord

# What only a run that has ended has something to show in.
_LEFT_BEHIND = frozenset({REPLAY, FAILURE})


class RunPanel(QWidget):
    """Follows the selection; tabs are made when first needed and rest while hidden.

    Signals:
        action_wanted: Something to do that the window knows, by the action's id.
    """

    action_wanted = Signal(str)

    def __init__(self, services: Services, presenters: PresenterRegistry) -> None:
        super().__init__()
        as_panel(self)
        self._services = services
        self._presenters = presenters
        self._made: dict[str, RunTab] = {}
        self._pages: dict[str, QWidget] = {}
        self._shown: list[str] = []
        self._run: RunRecord | None = None
        self._analytics = False
        self._preferred = ""
        self._watching = False
        self._switching = False
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.setUsesScrollButtons(True)
        self.tabs.currentChanged.connect(self._on_tab)
        self._empty = EmptyState(
            "No run selected", "Choose a run in the table to see its numbers, curves and logs."
        )
        self._stack = QStackedWidget()
        self._stack.addWidget(self._empty)
        self._stack.addWidget(self.tabs)
        self.setLayout(column(self._stack))
        services.themes.changed.connect(self._recolour)
        self._files = FileWatch(services.link_of, self)
        self._files.changed.connect(self.refresh)
        services.selection.current_changed.connect(self._on_current)
        services.store.changed.connect(self._on_changed)

    @property
    def shown(self) -> tuple[str, ...]:
        """The names of the tabs that the run has, in order."""
        return tuple(self._shown) if self._run is not None else ()

    @property
    def message(self) -> str:
        """What is said in place of tabs; empty while there are some."""
        return "" if self._stack.currentWidget() is self.tabs else self._empty.title

    def tab(self, name: str) -> RunTab:
        """A tab by name, made when it is not there yet."""
        if name not in self._made:
            tab = TABS[name].make(self._services)
            tab.action_wanted.connect(self.action_wanted)
            self._page(name).setLayout(column(tab))
            self._made[name] = tab
            tab.set_lane(self._analytics)
            tab.set_run(self._run if name in self._shown else None)
        return self._made[name]

    def open_tab(self, name: str) -> None:
        """Bring a tab to the front, if the run has it."""
        self._preferred = name
        if name in self._shown:
            self.tabs.setCurrentWidget(self._page(name))

    def watch(self, on: bool) -> None:
        """Whether runs are watched now: of one at work, the agent is shown and not its numbers."""
        self._watching = on
        if on and self._run is not None:
            self._turn_to_what_happens(self._run)

    def _turn_to_what_happens(self, run: RunRecord) -> None:
        """Leave a tab that is empty while a run is at work, or says less than its pictures."""
        front = self._front()
        if run.live and (front in _LEFT_BEHIND or (self._watching and front == OVERVIEW)):
            self.tabs.setCurrentWidget(self._page(LIVE if LIVE in self._shown else OVERVIEW))

    def _page(self, name: str) -> QWidget:
        """Where a tab will be; an empty page costs nothing."""
        if name not in self._pages:
            self._pages[name] = QWidget()
        return self._pages[name]

    def refresh(self) -> None:
        """Look again which tabs the run gets."""
        self._on_current(self._services.selection.current)

    def showEvent(self, event: QShowEvent | None) -> None:  # noqa: N802
        super().showEvent(event)
        self._files.watch(self._run)
        self._on_tab()

    def hideEvent(self, event: QHideEvent | None) -> None:  # noqa: N802
        super().hideEvent(event)
        self.rest()

    def rest(self) -> None:
        """Stop everything the tabs do."""
        self._files.rest()
        for tab in self._made.values():
            tab.deactivate()

    def reopen(self) -> None:
        """The daemon is back: the tab in front starts following again."""
        self.rest()
        if self.isVisible():
            self._files.watch(self._run)
        self._on_tab()

    def shut(self) -> None:
        """The window closes: stop everything the tabs do or keep."""
        self.rest()
        for tab in self._made.values():
            tab.shut()

    def _on_current(self, run_id: str) -> None:
        run = self._services.store.get(run_id)
        self._stack.setCurrentWidget(self.tabs if run else self._empty)
        if run is None:
            gone = bool(run_id)
            self._empty.say(
                "This run is gone" if gone else "No run selected",
                "It was deleted. Undo is in the Run menu."
                if gone
                else "Choose a run in the table to see its numbers, curves and logs.",
            )
            self.rest()
            self._run = None
            for tab in self._made.values():
                tab.set_run(None)
            return
        self._show(run)

    def _on_changed(self, ids: set[str]) -> None:
        current = self._services.selection.current
        if current in ids:
            self._on_current(current)

    def _show(self, run: RunRecord) -> None:
        presenter = self._presenters.get(run.worker)
        other = self._run is None or self._run.run_id != run.run_id
        self._run, self._analytics = run, presenter.analytics
        if self.isVisible():
            self._files.watch(run)
        names = presenter.tabs(run, self._files.names(run))
        if names != self._shown:
            self._set_tabs(names)
        if other:
            self._turn_to_what_happens(run)
        for name in names:
            if name in self._made:
                self._made[name].set_lane(presenter.analytics)
                self._made[name].set_run(run)
        self._on_tab()

    def _set_tabs(self, names: list[str]) -> None:
        # Emptying the tab bar makes one tab after another current; only the last one counts.
        self._switching = True
        before = self._front()
        self.tabs.clear()
        for name in names:
            kind = TABS[name].make
            icon = self._services.themes.icon(kind.icon, "muted")
            self.tabs.addTab(self._page(name), icon, kind.title.replace("&", "&&"))
        self._shown = names
        wanted = self._preferred if self._preferred in names else before
        if wanted in names:
            self.tabs.setCurrentWidget(self._page(wanted))
        self._switching = False

    def _front(self) -> str:
        """The name of the tab in front."""
        place = self.tabs.currentIndex()
        return self._shown[place] if 0 <= place < len(self._shown) else ""

    def _recolour(self) -> None:
        for place, name in enumerate(self._shown):
            icon = self._services.themes.icon(TABS[name].make.icon, "muted")
            self.tabs.setTabIcon(place, icon)

    def _on_tab(self) -> None:
        if self._switching:
            return
        front = self._front()
        for name, tab in self._made.items():
            # Tabs hold streams and processes; those that cannot be seen must not.
            if name != front or not self.isVisible():
                tab.deactivate()
        if self.isVisible() and front and self._run is not None:
            self._preferred = front
            self.tab(front).activate()
