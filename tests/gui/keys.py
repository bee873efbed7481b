"""Hands on the keyboard: keys go to whatever has the focus, as a person's do."""

from qtpy.QtCore import Qt
from qtpy.QtGui import QKeySequence
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QWidget

from .conftest import Driver

# Long enough for a busy machine to bring a window to the front; some have nothing to focus on.
_MOMENT_S = 5.0


class Keys:
    """Types into one window; nothing is reached in any other way."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._window = driver.window
        # Shortcuts belong to the window in front.
        self._window.activateWindow()
        driver.until(self._window.isActiveWindow, "the window is in front")
        self._window.runs_panel.table.setFocus()
        driver.until(QApplication.focusWidget, "the keys have somewhere to go")

    @property
    def focus(self) -> QWidget:
        """What has the focus; waited for, because windows come to the front a moment later."""

        def found() -> QWidget | None:
            if QApplication.activeWindow() is not None:
                return QApplication.focusWidget()
            # Without a window manager the window in front may be none; a person's always is one.
            # Again and again: a window that is still closing takes the first request with it.
            front = QApplication.activePopupWidget() or QApplication.activeModalWidget()
            (front or self._window).activateWindow()
            return None

        try:
            widget = self._driver.until(found, "the keys have somewhere to go", _MOMENT_S)
        except AssertionError:
            return self._window
        assert isinstance(widget, QWidget)
        return widget

    def wait_for(self, window: QWidget) -> None:
        """Wait, as a person does, until a window that was asked for is there and in front."""
        self._driver.until(window.isVisible, "the window is shown")

        def in_front() -> bool:
            window.activateWindow()
            focus = QApplication.focusWidget()
            return focus is not None and (focus is window or window.isAncestorOf(focus))

        self._driver.until(in_front, "the window has the keys")

    def find(self, sequence: str, words: str) -> None:
        """Open the palette or the finder, type some words, and take what is found."""
        self.press(sequence)
        self.wait_for(self._window.command_palette)
        self.type(words)
        self.press("Return")
        self._driver.until(lambda: not self._window.command_palette.isVisible(), "it closes")

    def press(self, *sequences: str) -> None:
        """Press keys one after the other, each as Qt spells it: `Ctrl+Shift+P`."""
        for sequence in sequences:
            combination = QKeySequence(sequence)[0]
            QTest.keyClick(self.focus, combination.key(), combination.keyboardModifiers())
            self._driver.spin(0.01)

    def type(self, text: str) -> None:
        """Type letters."""
        QTest.keyClicks(self.focus, text)
        self._driver.spin(0.01)

    def command(self, words: str) -> None:
        """Find a command in the palette and do it."""
        self.find("Ctrl+Shift+P", words)

    def tab_to(self, wanted: QWidget, most: int = 60) -> None:
        """Press Tab until a widget has the focus."""
        seen = []
        for _ in range(most):
            if self.focus is wanted or wanted.isAncestorOf(self.focus):
                return
            seen.append(self.focus.accessibleName() or type(self.focus).__name__)
            QTest.keyClick(self.focus, Qt.Key.Key_Tab)
        raise AssertionError(f"Tab never reaches {wanted.accessibleName()!r}, only {seen}")
