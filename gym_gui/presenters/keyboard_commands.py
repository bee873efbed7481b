"""Reaching every part of the window without the mouse: panels, tabs and forms by key."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QApplication, QTabWidget, QWidget

from gym_gui.actions.action import Action
from gym_gui.forms.registry import FORMS, GENERIC
from gym_gui.panels.launch_panel import LaunchPanel
from gym_gui.panels.run_panel import RunPanel
from gym_gui.presenters.tab_registry import TABS


class KeyboardCommands:
    """Moves the focus.

    Args:
        panels: The parts of the window, in the order in which F6 visits them.
        launch: The forms.
        run_panel: The tabs of a run.
        show_layout: Brings a part into sight that is not in the layout in use.
    """

    def __init__(
        self,
        panels: Sequence[QWidget],
        launch: LaunchPanel,
        run_panel: RunPanel,
        show_layout: Callable[[str], None],
    ) -> None:
        self._panels = panels
        self._launch = launch
        self._run_panel = run_panel
        self._show_layout = show_layout

    def actions(self) -> tuple[Action, ...]:
        """Panels and tabs in the View menu; every form and every tab by name in the palette."""
        return (*self._moving(), *self._forms(), *self._tabs())

    def _moving(self) -> Iterator[Action]:
        for name, title, shortcut, step in (
            ("next_panel", "Next panel", "F6", 1),
            ("previous_panel", "Previous panel", "Shift+F6", -1),
        ):
            yield Action(
                id=f"view.{name}",
                title=title,
                do=partial(self.move_panel, step),
                menu="View",
                shortcut=shortcut,
                separated=step == 1,
            )
        for name, title, shortcut, step in (
            ("next_tab", "Next tab", "Ctrl+PgDown", 1),
            ("previous_tab", "Previous tab", "Ctrl+PgUp", -1),
        ):
            yield Action(
                id=f"view.{name}",
                title=title,
                do=partial(self.move_tab, step),
                menu="View",
                shortcut=shortcut,
            )

    def _forms(self) -> Iterator[Action]:
        for kind, form in FORMS.items():
            if kind != GENERIC:
                yield Action(
                    id=f"form.{kind}", title=f"Form: {form.title}", do=partial(self.open_form, kind)
                )

    def _tabs(self) -> Iterator[Action]:
        for name, tab in TABS.items():
            yield Action(
                id=f"tab.{name}",
                title=f"Tab of the run: {tab.make.title}",
                do=partial(self.open_tab, name),
                icon=tab.make.icon,
            )

    def move_panel(self, step: int) -> None:
        """Put the focus into the next panel in sight."""
        shown = [panel for panel in self._panels if panel.isVisible()]
        if not shown:
            return
        here = next((at for at, panel in enumerate(shown) if _has_focus(panel)), -step)
        focus_first(shown[(here + step) % len(shown)])

    def move_tab(self, step: int) -> None:
        """Show the next tab of the panel that has the focus, else of the first that has tabs."""
        shown = [panel for panel in self._panels if panel.isVisible()]
        ordered = sorted(shown, key=lambda panel: not _has_focus(panel))
        for panel in ordered:
            tabs = next((one for one in panel.findChildren(QTabWidget) if one.isVisible()), None)
            if tabs is not None and tabs.count() > 1:
                tabs.setCurrentIndex((tabs.currentIndex() + step) % tabs.count())
                return

    def open_form(self, kind: str) -> None:
        """Bring a form of the chosen actor to the front, and the focus into it."""
        actor = self._launch.current
        if actor is None:
            return
        self._show_layout("train")
        focus_first(self._launch.show_form(kind, actor.worker_type))

    def open_tab(self, name: str) -> None:
        """Bring a tab of the selected run to the front."""
        if not self._run_panel.isVisible():
            self._show_layout("watch")
        self._run_panel.open_tab(name)


def _has_focus(panel: QWidget) -> bool:
    focus = QApplication.focusWidget()
    return focus is not None and (panel is focus or panel.isAncestorOf(focus))


def focus_first(panel: QWidget) -> None:
    """Put the focus into the first field of a panel that the Tab key would stop at."""
    widget = panel.nextInFocusChain()
    while widget is not None and widget is not panel:
        stops = widget.focusPolicy() & Qt.FocusPolicy.TabFocus
        if stops and panel.isAncestorOf(widget) and widget.isVisible() and widget.isEnabled():
            widget.setFocus(Qt.FocusReason.TabFocusReason)
            return
        widget = widget.nextInFocusChain()
    panel.setFocus(Qt.FocusReason.TabFocusReason)
