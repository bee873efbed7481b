"""The main window: docks around the run table, and the wiring between them."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from qtpy.QtCore import QByteArray, Qt, QTimer
from qtpy.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent, QResizeEvent
from qtpy.QtWidgets import QMainWindow, QStackedWidget, QToolBar, QWidget

from gym_gui.actions.action import Context
from gym_gui.actions.binding import ActionBinder
from gym_gui.background.storage import read_json, window_folder, write_json
from gym_gui.forms.registry import TRAIN
from gym_gui.models import dock_layouts
from gym_gui.models.actors import Actor
from gym_gui.models.dock_layouts import LAYOUTS, WindowState, decode_state, encode_state
from gym_gui.models.notices import Notice
from gym_gui.models.window_settings import WindowSettings, save_window_settings
from gym_gui.panels.arena_panel import ArenaPanel
from gym_gui.panels.compare_panel import ComparePanel
from gym_gui.panels.dialogs import Dialogs
from gym_gui.panels.docks import DockManager
from gym_gui.panels.launch_panel import LaunchPanel
from gym_gui.panels.machines_panel import MachinesPanel
from gym_gui.panels.notices_panel import NoticesPanel
from gym_gui.panels.play_panel import PlayPanel
from gym_gui.panels.run_panel import RunPanel
from gym_gui.panels.runs_panel import RunsPanel
from gym_gui.panels.status_bar import StatusLine
from gym_gui.panels.welcome import Welcome
from gym_gui.presenters.arena_commands import ArenaCommands
from gym_gui.presenters.connections import Connections
from gym_gui.presenters.form_commands import FormCommands
from gym_gui.presenters.joining import Joining
from gym_gui.presenters.keyboard_commands import KeyboardCommands
from gym_gui.presenters.leaving import Leaving
from gym_gui.presenters.notifier import Notifier
from gym_gui.presenters.queue_commands import QueueCommands
from gym_gui.presenters.reports import Reports
from gym_gui.presenters.run_archives import ENDING, RunArchives, is_archive
from gym_gui.presenters.run_commands import RunCommands
from gym_gui.presenters.selection_commands import SelectionCommands
from gym_gui.presenters.tab_registry import PresenterRegistry
from gym_gui.presenters.table_commands import TableCommands
from gym_gui.presenters.verifying import Verifying
from gym_gui.presenters.window_commands import Finder, WindowCommands
from gym_gui.services import Services
from gym_gui.widgets.command_palette import CommandPalette
from gym_gui.widgets.layouts import as_panel, column
from gym_gui.widgets.messages import Banner
from gym_gui.widgets.qt_types import sure
from gym_gui.widgets.toast import Toast

_LAYOUT_ACTIONS = tuple(f"view.{name}" for name in LAYOUTS)


class MainWindow(QMainWindow):
    """The workbench."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        self.services = services
        self.setAcceptDrops(True)
        self.resize(1500, 920)
        self._closed = False
        self._presenters = PresenterRegistry()
        self.runs = RunCommands(services)
        self._archives = RunArchives(services)
        self.binder = ActionBinder(self, services.themes)
        self._build()
        self._bind_actions()
        self._notifier = Notifier(services, self)
        self.binder.fill(sure(self.menuBar()))
        self._make_tool_bar()
        self._connect()
        self.apply_settings(services.settings)
        self._restore()
        self._refresh_context()

    # ------------------------------------------------------------ building

    def _build(self) -> None:
        services = self.services
        self.runs_panel = RunsPanel(services)
        self.launch = LaunchPanel(services)
        # Large: made here, it does not delay the first press of a button.
        self.launch.form(TRAIN)
        self.run_panel = RunPanel(services, self._presenters)
        self.compare = ComparePanel(services)
        self.play = PlayPanel(services)
        self.arena = ArenaPanel(services)
        self.machines = MachinesPanel(services)
        self.notices_panel = NoticesPanel(services)
        self.welcome = Welcome()
        self.banner = Banner()
        self._centre = QStackedWidget()
        self._centre.addWidget(self.runs_panel)
        self._centre.addWidget(self.welcome)
        host = QWidget()
        as_panel(host)
        host.setLayout(column(self.banner, self._centre, spacing=0))
        self.setCentralWidget(host)
        self.docks = DockManager(
            self,
            {
                dock_layouts.LAUNCH: ("New run", self.launch),
                dock_layouts.RUN: ("Run", self.run_panel),
                dock_layouts.COMPARE: ("Analyse", self.compare),
                dock_layouts.PLAY: ("Play", self.play),
                dock_layouts.ARENA: ("Arena", self.arena),
                dock_layouts.MACHINES: ("Machines", self.machines),
                dock_layouts.NOTICES: ("Notifications", self.notices_panel),
            },
        )
        self.status = StatusLine(services)
        self.setStatusBar(self.status)
        self.command_palette = CommandPalette(self, services.themes)
        show_all = partial(self.binder.trigger, "view.notices")
        self.toast = Toast(self, services.themes, show_all)

    def _bind_actions(self) -> None:
        """Make every action, now that everything it acts on is there."""
        services, palette = self.services, self.command_palette
        dialogs = Dialogs(self, services)
        self.forms = FormCommands(
            services, self.launch, self.runs, dialogs, palette, self.show_layout
        )
        selection = SelectionCommands(
            services, self.runs, self._archives, dialogs, self.runs_panel, self.compare
        )
        queue = QueueCommands(services, dialogs)
        table = TableCommands(
            services,
            self.runs_panel,
            self.run_panel,
            self.compare,
            dialogs,
            palette,
            self.show_layout,
        )
        finder = Finder(
            services,
            palette,
            self.binder,
            self.runs_panel,
            self.launch,
            self.show_layout,
            self.forms.environments,
            self.forms.new_run_in,
        )
        window = WindowCommands(self, services, self.docks, dialogs, self.binder)
        panels: list[QWidget] = [self.runs_panel, self.welcome, self.launch, self.run_panel]
        panels += [self.compare, self.play, self.arena, self.machines, self.notices_panel]
        keyboard = KeyboardCommands(panels, self.launch, self.run_panel, self.show_layout)
        reports = Reports(services, dialogs)
        leaving = Leaving(services, dialogs, self.forms.load_config)
        trust = Verifying(services, self)
        joining = Joining(services, self.run_panel, self.show_layout)
        groups = (self.forms, selection, queue, joining, trust, leaving, table, reports, finder)
        for group in (*groups, window, keyboard):
            self.binder.bind(group.actions())
        self.runs_panel.use_actions(self.binder)
        shown = self.runs_panel, self.run_panel, self.play
        self._arena_commands = ArenaCommands(self.arena, *shown, self.show_layout)

    def _make_tool_bar(self) -> None:
        bar = QToolBar("Layouts")
        bar.setObjectName("toolbar")
        bar.setMovable(False)
        bar.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        bar.addAction(self.binder.actions["run.new"])
        bar.addSeparator()
        for name, layout in LAYOUTS.items():
            action = self.binder.actions[f"view.{name}"]
            action.setIconText(layout.name)
            bar.addAction(action)
        spacer = QWidget()
        spacer.setSizePolicy(*[spacer.sizePolicy().Policy.Expanding] * 2)
        bar.addWidget(spacer)
        for name in ("app.palette", "view.theme", "app.settings"):
            bar.addAction(self.binder.actions[name])
        self.addToolBar(bar)

    def _connect(self) -> None:
        services = self.services
        for source in (services.daemons, services.calls):
            source.unexpected.connect(services.notices.problem)
        services.store.changed.connect(lambda _ids: self._on_runs())
        services.store.settled.connect(self._on_runs)
        services.selection.changed.connect(self._refresh_context)
        services.notices.said.connect(self.toast.show_notice)
        services.themes.changed.connect(self.binder.recolour)
        self.runs_panel.views.changed.connect(self._refresh_context)
        self.runs_panel.model.edited.connect(self.runs.edit)
        self.run_panel.action_wanted.connect(self.binder.trigger)
        self.welcome.action_wanted.connect(self.binder.trigger)
        self.welcome.closed.connect(self._show_table)
        self.compare.action_wanted.connect(self.binder.trigger)
        self.machines.runs_wanted.connect(self.runs_panel.show_daemon)
        self.machines.connect_wanted.connect(lambda: self.binder.trigger("daemon.connect"))
        self.launch.submitted.connect(self.forms.submit)
        self.launch.play_wanted.connect(lambda: self.binder.trigger("play.start"))
        self.launch.actors_changed.connect(self._on_actors)
        self.launch.sweep_begun.connect(lambda _id: self.binder.trigger("analyse.study"))
        self.status.bell.clicked.connect(lambda: self.binder.trigger("view.notices"))
        self._connections = Connections(
            services,
            self._presenters,
            self.launch,
            self.run_panel,
            self.banner,
            self._on_connections,
        )

    # ------------------------------------------------------------ what is known

    def _on_connections(self, title: str) -> None:
        self.setWindowTitle(title)
        self._refresh_context()

    def _on_actors(self, actors: list[Actor]) -> None:
        self.services.run_settings.set_actors(actors)
        self.play.set_actors(actors)
        self.arena.set_actors(actors)

    def _show_table(self) -> None:
        """The table of runs in the middle, unless there is nothing in it."""
        if self.services.store.runs:
            self._centre.setCurrentWidget(self.runs_panel)

    def _on_runs(self) -> None:
        empty = self.services.store.complete and not self.services.store.runs
        if empty:
            self.show_welcome()
        elif not self.welcome.back.isVisibleTo(self.welcome):
            # It was shown because there were no runs; asked for, it stays until it is closed.
            self._show_table()
        self._refresh_context()

    def _refresh_context(self) -> None:
        self.binder.set_context(
            Context(
                connected=self.services.link.state.usable,
                selected=self.services.selected_runs(),
                can_undo=self.runs.can_undo,
                view=self.runs_panel.views.current,
                reached=frozenset(
                    run.run_id
                    for run in self.services.selected_runs()
                    if self.services.link_of(run.run_id).state.usable
                ),
            )
        )

    # ------------------------------------------------------------ looking

    def show_layout(self, name: str) -> None:
        """Switch to a named layout."""
        self._show_table()
        if name != self.docks.current and not self.docks.show_layout(name):
            self.services.notices.info("The saved layout could not be used; showing the default")
        for action in _LAYOUT_ACTIONS:
            self.binder.actions[action].setChecked(action == f"view.{name}")
        if name == "analyse" and self.services.selection.ids:
            self.compare.show_runs(self.services.selection.ids)
        self.run_panel.watch(name == "watch")
        # Not the filter, where a shortcut would be taken for typing.
        self.runs_panel.table.setFocus()

    def show_welcome(self) -> None:
        """Show the first steps again; they never keep the table away for good."""
        self.welcome.set_runs(len(self.services.store.runs))
        self._centre.setCurrentWidget(self.welcome)

    def toggle_lock(self) -> None:
        """Lock or free the docks."""
        settings = self.services.settings
        self._store(replace(settings, lock_docks=not settings.lock_docks))
        self._apply_lock()

    def switch_theme(self) -> None:
        """From light to dark or back."""
        other = "light" if self.services.themes.theme.name == "dark" else "dark"
        self.change_settings(replace(self.services.settings, theme=other))

    def scale_text(self, points: float) -> None:
        """Larger or smaller text."""
        size = min(20.0, max(7.0, self.services.settings.font_points + points))
        self.change_settings(replace(self.services.settings, font_points=size))

    def apply_settings(self, settings: WindowSettings) -> None:
        """Put settings into effect."""
        self.services.settings = settings
        self.services.themes.apply(settings.theme, settings.font_points)
        self._apply_lock()

    def _apply_lock(self) -> None:
        locked = self.services.settings.lock_docks
        self.binder.actions["view.lock"].setChecked(locked)
        self.docks.lock(locked)

    def change_settings(self, settings: WindowSettings) -> None:
        """Put settings into effect and keep them."""
        self._store(settings)
        self.apply_settings(settings)

    def _store(self, settings: WindowSettings) -> None:
        self.services.settings = settings
        self.services.calls.run(lambda: save_window_settings(self.services.daemons.home, settings))

    # ------------------------------------------------------------ files dropped, state kept

    def dragEnterEvent(self, event: QDragEnterEvent | None) -> None:  # noqa: N802
        if event is not None and any(url.isLocalFile() for url in sure(event.mimeData()).urls()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent | None) -> None:  # noqa: N802
        if event is None:
            return
        for url in sure(event.mimeData()).urls():
            if url.isLocalFile():
                self.open_file(Path(url.toLocalFile()))
        event.acceptProposedAction()

    def open_file(self, path: Path) -> None:
        """Open a file: import an archive, load a config, evaluate a checkpoint."""
        if is_archive(path):
            self._archives.take_in(path)
        elif path.suffix == ".json":
            self.forms.load_config_file(path)
        elif path.suffix in (".cleanrl_model", ".state"):
            self.forms.evaluate_file(path)
        else:
            self.services.notices.problem(
                f"{path.name} cannot be opened here; drop runs ({ENDING}), a config (.json) "
                "or a checkpoint (.cleanrl_model)"
            )

    def _restore(self) -> None:
        try:
            stored = read_json(window_folder(self.services.daemons.home) / "window.json")
        except (ValueError, OSError):
            stored = "unreadable"
        state, notice = decode_state(stored)
        if state.geometry:
            self.restoreGeometry(QByteArray(state.geometry))
        self.runs_panel.restore_look(state.table)
        whole = self.docks.restore(state.docks or {}, state.layout)
        if not whole and not notice:
            notice = "The saved layout could not be used; showing the default"
        if notice:
            self.services.notices.say(Notice("warning", notice))
        for action in _LAYOUT_ACTIONS:
            self.binder.actions[action].setChecked(action == f"view.{state.layout}")
        if not state.docks:
            # Docks can be sized only once the window has its own size.
            QTimer.singleShot(0, self.docks.reset)

    def save_state(self) -> None:
        """Remember how the window looks."""
        state = WindowState(
            self.docks.current,
            self.saveGeometry().data(),
            self.docks.states(),
            self.runs_panel.look(),
        )
        try:
            write_json(
                window_folder(self.services.daemons.home) / "window.json", encode_state(state)
            )
        except OSError as error:
            self.services.notices.error("The layout could not be stored", error)

    def resizeEvent(self, event: QResizeEvent | None) -> None:  # noqa: N802
        super().resizeEvent(event)
        if event is not None and self.isVisible() and event.oldSize().isValid():
            self.docks.rescale(event.oldSize(), event.size())

    def closeEvent(self, event: QCloseEvent | None) -> None:  # noqa: N802
        if not self._closed:
            self._closed = True
            # First what must not be lost: stopping threads may take a moment.
            self.save_state()
            self.launch.save_now()
            self.play.leave()
            self.run_panel.shut()
            self.compare.rest()
            self._notifier.close()
            self.services.close()
        super().closeEvent(event)
