"""From the list of actions to Qt's: one QAction each, shared by menus, tool bar and palette."""

from __future__ import annotations

from collections.abc import Callable

from qtpy.QtCore import Qt
from qtpy.QtGui import QAction, QKeySequence
from qtpy.QtWidgets import QMenuBar, QWidget

from gym_gui.actions.action import Context
from gym_gui.actions.catalog import ACTIONS, BY_ID, MENUS
from gym_gui.resources.theming import ThemeManager

Runner = Callable[[str], None]
_KEEP_RECENT = 8


class ActionBinder:
    """Owns the window's QActions and keeps them enabled as the context says."""

    def __init__(self, window: QWidget, themes: ThemeManager, run: Runner) -> None:
        self._themes = themes
        self._run = run
        self.recent: list[str] = []
        self.context = Context()
        self.actions: dict[str, QAction] = {}
        for action in ACTIONS:
            made = QAction(action.title, window)
            made.setObjectName(action.id)
            made.setCheckable(action.checkable)
            if action.shortcut:
                made.setShortcut(QKeySequence(action.shortcut))
                made.setShortcutContext(Qt.ShortcutContext.WindowShortcut)
                shown = made.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
                made.setToolTip(f"{action.title}  ({shown})")
            made.triggered.connect(lambda _checked=False, name=action.id: self.trigger(name))
            window.addAction(made)
            self.actions[action.id] = made
        self.recolour()

    def trigger(self, action_id: str) -> None:
        """Do it, and remember that it was used."""
        self.recent = [action_id, *(one for one in self.recent if one != action_id)][:_KEEP_RECENT]
        self._run(action_id)

    def set_context(self, context: Context) -> None:
        """Enable what makes sense now."""
        self.context = context
        for action_id, made in self.actions.items():
            made.setEnabled(BY_ID[action_id].enabled(context))

    def recolour(self) -> None:
        """Take the icons of the theme in use."""
        for action in ACTIONS:
            if action.icon:
                self.actions[action.id].setIcon(self._themes.icon(action.icon))

    def fill(self, bar: QMenuBar) -> None:
        """Make the menus."""
        for title in MENUS:
            menu = bar.addMenu(title)
            for action in ACTIONS:
                if action.menu == title:
                    if action.separated:
                        menu.addSeparator()
                    menu.addAction(self.actions[action.id])
