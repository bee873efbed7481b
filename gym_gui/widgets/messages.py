"""What the window says in place: a banner across the top, and the words of an empty page."""

from collections.abc import Callable

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QFrame, QPushButton, QSizePolicy, QWidget

from gym_gui.widgets.controls import button, restyle
from gym_gui.widgets.labels import label, selectable
from gym_gui.widgets.layouts import column, row


class Banner(QFrame):
    """A sentence across the top, with at most one thing to press."""

    def __init__(self, tone: str = "info", text: str = "") -> None:
        super().__init__()
        self.setObjectName("banner")
        self._label = selectable(label(text, wrap=True))
        self._label.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self._button = QPushButton()
        self._pressed: Callable[[], object] = lambda: None
        self._button.clicked.connect(lambda: self._pressed())
        self._button.hide()
        self.setLayout(row(self._label, self._button, margin=8))
        self.say(tone, text)

    def say(
        self,
        tone: str,
        text: str,
        action: str = "",
        pressed: Callable[[], object] | None = None,
    ) -> None:
        """Show a sentence, or nothing when it is empty."""
        restyle(self, "tone", tone)
        self._label.setText(text)
        self._button.setText(action)
        self._button.setVisible(bool(action))
        self._pressed = pressed or (lambda: None)
        self.setVisible(bool(text))

    @property
    def text(self) -> str:
        """What it says."""
        return str(self._label.text())

    @property
    def action(self) -> str:
        """What can be pressed; empty if nothing can."""
        return str(self._button.text())


class EmptyState(QWidget):
    """Why there is nothing here, and the button that changes it."""

    def __init__(
        self,
        title: str,
        text: str,
        action: str = "",
        pressed: Callable[[], object] | None = None,
    ) -> None:
        super().__init__()
        self._title = label(title, "headline")
        self._title.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._text = label(text, "muted", wrap=True)
        self._text.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._text.setMaximumWidth(520)
        self._text.setMinimumWidth(240)
        middle = row(1, self._text, 1)
        layout = column(2, self._title, middle, spacing=10, margin=16)
        if action and pressed:
            layout.addLayout(row(1, button(action, pressed), 1))
        layout.addStretch(3)
        self.setLayout(layout)

    @property
    def title(self) -> str:
        """The headline."""
        return self._title.text()

    def say(self, title: str, text: str) -> None:
        """Change the words."""
        self._title.setText(title)
        self._text.setText(text)
