"""Hands on the keyboard: keys go to whatever has the focus, as a person's do."""

from qtpy.QtCore import Qt
from qtpy.QtGui import QKeySequence
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QWidget

from .conftest import Driver


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
        """What has the focus."""
        # Without a window manager the window in front may be none; a person's always is one.
        if QApplication.activeWindow() is None:
            front = QApplication.activePopupWidget() or QApplication.activeModalWidget()
            (front or self._window).activateWindow()
            self._driver.until(QApplication.activeWindow, "a window is in front")
        return QApplication.focusWidget() or self._window

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
        self.press("Ctrl+Shift+P")
        self._driver.until(self._window.command_palette.isVisible, "the palette")
        self.type(words)
        self.press("Return")

    def tab_to(self, wanted: QWidget, most: int = 60) -> None:
        """Press Tab until a widget has the focus."""
        seen = []
        for _ in range(most):
            if self.focus is wanted or wanted.isAncestorOf(self.focus):
                return
            seen.append(self.focus.accessibleName() or type(self.focus).__name__)
            QTest.keyClick(self.focus, Qt.Key.Key_Tab)
        raise AssertionError(f"Tab never reaches {wanted.accessibleName()!r}, only {seen}")
