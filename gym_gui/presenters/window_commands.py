"""The window itself: layouts, looks, the daemon, help; and finding anything by typing."""

from collections.abc import Callable, Iterable
from typing import Protocol

from qtpy.QtGui import QKeySequence

from gym_gui.actions import rules
from gym_gui.actions.action import Action
from gym_gui.actions.binding import ActionBinder
from gym_gui.models.dock_layouts import LAYOUTS, NOTICES
from gym_gui.models.palette_items import PaletteItem
from gym_gui.models.window_settings import WindowSettings
from gym_gui.panels.dialogs import Dialogs
from gym_gui.panels.docks import DockManager
from gym_gui.panels.launch_panel import LaunchPanel
from gym_gui.panels.runs_panel import RunsPanel
from gym_gui.services import Services
from gym_gui.widgets.command_palette import CommandPalette
from mosaic.connect.elsewhere import SCHEME
from mosaic.errors import InvalidArgumentError, SecretError
from mosaic.presenting.run_status import status_of, title_of

# Ranking more at every letter would be felt; older runs are found with the table's filter.
_MOST_RUNS = 2000
_LAYOUT_ICONS = {
    "train": "layout",
    "watch": "eye",
    "analyse": "chart",
    "play": "gamepad",
    "arena": "robot",
    "machines": "server",
}


class Window(Protocol):
    """What these commands ask of the window."""

    def show_layout(self, name: str) -> None: ...
    def toggle_lock(self) -> None: ...
    def switch_theme(self) -> None: ...
    def scale_text(self, points: float) -> None: ...
    def apply_settings(self, settings: WindowSettings) -> None: ...
    def show_welcome(self) -> None: ...
    def close(self) -> bool: ...


class WindowCommands:
    """The View, Play, Daemon and Help menus."""

    def __init__(
        self,
        window: Window,
        services: Services,
        docks: DockManager,
        dialogs: Dialogs,
        binder: ActionBinder,
    ) -> None:
        self._window = window
        self._services = services
        self._docks = docks
        self._dialogs = dialogs
        self._binder = binder

    def actions(self) -> tuple[Action, ...]:
        """Layouts first, then the rest menu by menu."""
        return (*self._layouts(), *self._looks(), *self._daemon(), *self._help())

    def _layouts(self) -> Iterable[Action]:
        for place, (name, layout) in enumerate(LAYOUTS.items(), start=1):
            yield Action(
                id=f"view.{name}",
                title=f"Layout: {layout.name}",
                do=_partial(self._window.show_layout, name),
                menu="View",
                shortcut=f"Ctrl+{place}",
                icon=_LAYOUT_ICONS[name],
                checkable=True,
            )

    def _looks(self) -> tuple[Action, ...]:
        window = self._window
        return (
            Action(
                id="view.lock",
                title="Lock panels",
                do=window.toggle_lock,
                menu="View",
                icon="lock",
                checkable=True,
                separated=True,
            ),
            Action(
                id="view.reset",
                title="Reset this layout",
                do=self._docks.reset,
                menu="View",
                icon="layout",
            ),
            Action(
                id="view.theme",
                title="Switch light / dark",
                do=window.switch_theme,
                menu="View",
                shortcut="Ctrl+Shift+T",
                icon="sun",
            ),
            Action(
                id="view.larger",
                title="Larger text",
                do=lambda: window.scale_text(1),
                menu="View",
                shortcut="Ctrl++",
                icon="plus",
            ),
            Action(
                id="view.smaller",
                title="Smaller text",
                do=lambda: window.scale_text(-1),
                menu="View",
                shortcut="Ctrl+-",
            ),
            Action(
                id="view.notices",
                title="Show notifications",
                do=lambda: self._docks.show_dock(NOTICES),
                menu="View",
                shortcut="Ctrl+Shift+N",
                icon="bell",
                separated=True,
            ),
            Action(
                id="play.start",
                title="Play an environment",
                do=lambda: window.show_layout("play"),
                menu="Play",
                shortcut="Ctrl+Shift+G",
                icon="gamepad",
            ),
        )

    def _daemon(self) -> tuple[Action, ...]:
        return (
            Action(
                id="daemon.connect",
                title="Connect to another daemon …",
                do=self._ask_address,
                menu="Daemon",
                shortcut="Ctrl+Alt+D",
                icon="plus",
            ),
            Action(
                id="daemon.start",
                title="Start the trainer daemon",
                do=lambda: self._services.link.start_daemon(),
                menu="Daemon",
                icon="play",
            ),
            Action(
                id="daemon.stop",
                title="Stop the daemon, keep runs running",
                do=self._stop_daemon,
                menu="Daemon",
                icon="stop",
                enabled=rules.connected,
            ),
        )

    def _help(self) -> tuple[Action, ...]:
        return (
            Action(
                id="app.shortcuts",
                title="Keyboard shortcuts",
                do=lambda: self._dialogs.show_shortcuts(self._binder.catalog.values()),
                menu="Help",
                shortcut="?",
                icon="info",
            ),
            Action(
                id="app.welcome",
                title="First steps",
                do=self._window.show_welcome,
                menu="Help",
                icon="book",
            ),
            Action(
                id="app.settings",
                title="Settings …",
                do=lambda: self._dialogs.show_settings(self._window.apply_settings),
                menu="View",
                shortcut="Ctrl+,",
                icon="gear",
                separated=True,
            ),
            Action(
                id="app.quit",
                title="Close the window",
                do=self._window.close,
                menu="Run",
                shortcut="Ctrl+Q",
                icon="cross",
                separated=True,
            ),
            Action(
                id="app.about",
                title="About MOSAIC",
                do=self._dialogs.show_about,
                menu="Help",
                icon="info",
                separated=True,
            ),
        )

    def _ask_address(self) -> None:
        self._dialogs.ask_text(
            "Connect to another daemon",
            "ssh://USER@HOST, or the path of an invitation (mosaic invite FILE):",
            SCHEME,
            self._connect_to,
        )

    def _connect_to(self, address: str) -> None:
        try:
            link = self._services.daemons.connect_to(address)
        except (InvalidArgumentError, SecretError) as error:
            self._services.notices.error("Not connected", error)
            return
        self._services.notices.info(f"Connecting to {link.name} …")
        self._window.show_layout("machines")

    def _stop_daemon(self) -> None:
        self._services.link.ask(
            lambda client: client.shutdown("leave"),
            failed=lambda error: self._services.notices.error("The daemon was not stopped", error),
        )


class Finder:
    """The command palette over every action, every run and every environment."""

    def __init__(
        self,
        services: Services,
        palette: CommandPalette,
        binder: ActionBinder,
        table: RunsPanel,
        launch: LaunchPanel,
        show_layout: Callable[[str], None],
        environments: Callable[[], Iterable[str]],
        new_run_in: Callable[[str], None],
    ) -> None:
        self._services = services
        self._palette = palette
        self._binder = binder
        self._table = table
        self._launch = launch
        self._window_layout = show_layout
        self._environments = environments
        self._new_run_in = new_run_in

    def actions(self) -> tuple[Action, ...]:
        """The two ways to find something by typing."""
        return (
            Action(
                id="app.palette",
                title="Command palette",
                do=self.find_action,
                menu="Help",
                shortcut="Ctrl+Shift+P",
                icon="search",
            ),
            Action(
                id="app.find",
                title="Go to a run, an environment or an actor",
                do=self.find_place,
                menu="Help",
                shortcut="Ctrl+P",
                icon="search",
            ),
        )

    def find_action(self) -> None:
        """Offer everything that can be done."""
        items = []
        for action in self._binder.catalog.values():
            made = self._binder.actions[action.id]
            keys = made.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
            title = f"{action.menu}: {action.title}" if action.menu else action.title
            items.append(PaletteItem(action.id, title, keys, action.icon, made.isEnabled()))
        self._palette.ask(
            "What do you want to do?", items, self._binder.recent, self._binder.trigger
        )

    def find_place(self) -> None:
        """Offer every run, environment and actor by name."""
        newest = sorted(
            self._services.store.runs.values(), key=lambda run: run.created_at, reverse=True
        )
        items = [
            PaletteItem(
                f"run:{run.run_id}",
                f"{title_of(run)} · {run.run_id[-6:]}",
                status_of(run).label,
                status_of(run).icon,
            )
            for run in newest[:_MOST_RUNS]
        ]
        items += [
            PaletteItem(f"actor:{one.worker_type}", one.title, "actor", "robot", one.available)
            for one in self._launch.actors
        ]
        environments = sorted(self._environments())
        items += [PaletteItem(f"env:{name}", name, "environment", "robot") for name in environments]
        self._palette.ask("Go to a run, an environment or an actor", items, (), self._go)

    def _go(self, key: str) -> None:
        kind, _, rest = key.partition(":")
        if kind == "run":
            self._table.show_run(rest)
        elif kind == "actor":
            self._window_layout("train")
            self._launch.choose(rest)
        else:
            self._new_run_in(rest)


def _partial(do: Callable[[str], None], name: str) -> Callable[[], None]:
    return lambda: do(name)
