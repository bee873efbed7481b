"""From the list of actions to Qt's: one QAction each, shared by menus, tool bar and palette."""

from collections.abc import Iterable

from qtpy.QtCore import QEvent, QObject, Qt
from qtpy.QtGui import QAction, QKeyEvent, QKeySequence
from qtpy.QtWidgets import QApplication, QLineEdit, QMenuBar, QPlainTextEdit, QWidget

from gym_gui.actions.action import Action, Context
from gym_gui.resources.theming import ThemeManager
from gym_gui.widgets.qt_types import sure

MENUS = ("Run", "View", "Analyse", "Play", "Daemon", "Help")
# What fits above the fold of the palette.
_KEEP_RECENT = 8


class EditorKeys(QObject):
    """Lets a shortcut of the window through where a text field would take it for itself.

    On Linux Qt's fields know three keys of Emacs: Ctrl+E and Ctrl+K move and delete to the end of
    the line, Ctrl+U deletes it. That is not expected in a window whose menus show these keys.
    """

    _KEYS = (Qt.Key.Key_E, Qt.Key.Key_K, Qt.Key.Key_U)

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:  # noqa: N802
        if not isinstance(event, QKeyEvent) or event.type() != QEvent.Type.ShortcutOverride:
            return False
        plain = event.modifiers() == Qt.KeyboardModifier.ControlModifier
        if not plain or event.key() not in self._KEYS:
            return False
        # Not accepted by the field, the key goes to the window's shortcuts.
        event.ignore()
        return isinstance(watched, QLineEdit | QPlainTextEdit)


class ActionBinder:
    """Owns the window's QActions and keeps them enabled as the context says.

    It starts empty: actions need the panels they act on, and the panels show actions.
    """

    def __init__(self, window: QWidget, themes: ThemeManager) -> None:
        self._window = window
        self._themes = themes
        self._editor_keys = EditorKeys(window)
        sure(QApplication.instance()).installEventFilter(self._editor_keys)
        self.recent: list[str] = []
        self.context = Context()
        self.catalog: dict[str, Action] = {}
        self.actions: dict[str, QAction] = {}

    def bind(self, actions: Iterable[Action]) -> None:
        """Make the QActions; an id that is there already is an error."""
        for action in actions:
            if action.id in self.catalog:
                raise ValueError(f"two actions are called {action.id!r}")
            self.catalog[action.id] = action
            self.actions[action.id] = self._made(action)
        self.recolour()

    def trigger(self, action_id: str) -> None:
        """Do it, and remember that it was used."""
        self.recent = [action_id, *(one for one in self.recent if one != action_id)][:_KEEP_RECENT]
        self.catalog[action_id].do()

    def set_context(self, context: Context) -> None:
        """Enable what makes sense now."""
        self.context = context
        for action_id, made in self.actions.items():
            made.setEnabled(self.catalog[action_id].enabled(context))

    def recolour(self) -> None:
        """Take the icons of the theme in use."""
        for action in self.catalog.values():
            if action.icon:
                self.actions[action.id].setIcon(self._themes.icon(action.icon))

    def fill(self, bar: QMenuBar) -> None:
        """Make the menus."""
        for title in MENUS:
            menu = sure(bar.addMenu(title))
            for action in self.catalog.values():
                if action.menu == title:
                    if action.separated:
                        menu.addSeparator()
                    menu.addAction(self.actions[action.id])

    def _made(self, action: Action) -> QAction:
        made = QAction(action.title, self._window)
        made.setObjectName(action.id)
        made.setCheckable(action.checkable)
        if action.shortcut:
            made.setShortcut(QKeySequence(action.shortcut))
            made.setShortcutContext(Qt.ShortcutContext.WindowShortcut)
            shown = made.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
            made.setToolTip(f"{action.title}  ({shown})")
        made.triggered.connect(lambda _checked=False: self.trigger(action.id))
        self._window.addAction(made)
        return made
