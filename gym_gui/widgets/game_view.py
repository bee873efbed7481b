"""Where a person plays: shows the game and takes the keys, visibly."""

from qtpy.QtCore import QEvent, Qt, Signal
from qtpy.QtGui import QFocusEvent, QKeyEvent, QKeySequence, QMouseEvent
from qtpy.QtWidgets import QFrame

from gym_gui.resources.theming import ThemeManager
from gym_gui.widgets.controls import restyle
from gym_gui.widgets.frame_view import FrameView
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column

_CAPTURED = "Keys go to the game. Press Esc to release them."
_FREE = "Click the game or press Return here to play with the keyboard."


class GameView(QFrame):
    """The game's picture with a border that says who gets the keys.

    Signals:
        held: The keys held down changed.
        captured_changed: Whether keys go to the game is another now.
    """

    held = Signal(list)
    captured_changed = Signal(bool)

    def __init__(self, themes: ThemeManager) -> None:
        super().__init__()
        self.setObjectName("gameBorder")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Game")
        self.setAccessibleDescription("While this has the focus, keys go to the game")
        self.view = FrameView(themes)
        self.view.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._note = label(_FREE, "muted")
        self._note.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._keys: list[str] = []
        self._wanted: set[str] = set()
        self.setLayout(column(self.view, self._note, margin=4, spacing=4, stretch={0: 1}))

    @property
    def captured(self) -> bool:
        """Whether keys go to the game."""
        return bool(self.property("captured") == "true")

    def set_keys(self, keys: set[str]) -> None:
        """The keys that mean something to this game."""
        self._wanted = keys

    def capture(self) -> None:
        """Give the keys to the game."""
        self.setFocus()
        self._set_captured(True)

    def release(self) -> None:
        """Take the keys back."""
        self._set_captured(False)
        self._keys = []
        self.held.emit([])

    def mousePressEvent(self, event: QMouseEvent | None) -> None:  # noqa: N802
        self.capture()
        super().mousePressEvent(event)

    def focusOutEvent(self, event: QFocusEvent | None) -> None:  # noqa: N802
        self.release()
        super().focusOutEvent(event)

    def event(self, event: QEvent | None) -> bool:
        # While captured, keys of the game must not trigger the window's shortcuts.
        if isinstance(event, QKeyEvent) and self.captured:
            if event.type() == QEvent.Type.ShortcutOverride:
                event.accept()
                return True
            # Qt would move the focus with Tab before a key handler sees it.
            if event.type() == QEvent.Type.KeyPress and event.key() == Qt.Key.Key_Tab:
                self.keyPressEvent(event)
                return True
        return bool(super().event(event))

    def keyPressEvent(self, event: QKeyEvent | None) -> None:  # noqa: N802
        if event is None:
            return
        if not self.captured:
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self.capture()
                return
            super().keyPressEvent(event)
            return
        if event.key() == Qt.Key.Key_Escape:
            self.release()
            return
        name = _name(event)
        # A key that is held counts once; the game itself decides how often it acts.
        if event.isAutoRepeat() or name not in self._wanted:
            return
        self._keys.append(name)
        self.held.emit(list(self._keys))

    def keyReleaseEvent(self, event: QKeyEvent | None) -> None:  # noqa: N802
        name = _name(event) if event is not None else ""
        if event is not None and not event.isAutoRepeat() and name in self._keys:
            self._keys.remove(name)
            self.held.emit(list(self._keys))
        super().keyReleaseEvent(event)

    def _set_captured(self, on: bool) -> None:
        changed = on != self.captured
        restyle(self, "captured", "true" if on else "false")
        self._note.setText(_CAPTURED if on else _FREE)
        if changed:
            self.captured_changed.emit(on)


def _name(event: QKeyEvent) -> str:
    """A key as games call it: left, space, enter, p."""
    text = QKeySequence(event.key()).toString(QKeySequence.SequenceFormat.PortableText).lower()
    return {"return": "enter"}.get(text, text)
