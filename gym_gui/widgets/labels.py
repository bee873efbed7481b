"""Labels in the styles of the style sheet: plain, shortened, and headline numbers."""

from qtpy.QtCore import Qt
from qtpy.QtGui import QResizeEvent
from qtpy.QtWidgets import QFrame, QLabel, QSizePolicy

from gym_gui.widgets.layouts import column


def label(text: str, style: str = "", wrap: bool = False) -> QLabel:
    """A label in one of the style sheet's styles."""
    made = QLabel(text)
    if style:
        made.setObjectName(style)
    made.setWordWrap(wrap)
    return made


def selectable(made: QLabel) -> QLabel:
    """Let a label's text be copied."""
    made.setTextInteractionFlags(
        Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.LinksAccessibleByMouse
    )
    return made


class ElidedLabel(QLabel):
    """A label that shortens its text with an ellipsis and shows all of it as a tool tip."""

    def __init__(self, text: str = "", style: str = "") -> None:
        super().__init__()
        self._full = text
        if style:
            self.setObjectName(style)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.setMinimumWidth(40)
        self.set_full(text)

    def set_full(self, text: str) -> None:
        """The whole text."""
        self._full = text
        self.setToolTip(text)
        self._elide()

    def resizeEvent(self, event: QResizeEvent | None) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._elide()

    def _elide(self) -> None:
        mode = Qt.TextElideMode.ElideRight
        self.setText(self.fontMetrics().elidedText(self._full, mode, max(10, self.width())))


class NumberTile(QFrame):
    """A headline number with its name underneath."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setObjectName("raised")
        self._number = label("—", "number")
        self._name = label(name, "muted")
        self.setLayout(column(self._number, self._name, margin=8, spacing=1))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_number(self, text: str) -> None:
        """Change the number."""
        self._number.setText(text)
        self.setAccessibleName(f"{self._name.text()}: {text}")

    @property
    def number(self) -> str:
        """What is shown."""
        return str(self._number.text())
