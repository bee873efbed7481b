"""Labels, rows, banners and empty states in the house style."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from qtpy.QtCore import QEvent, QObject, QSize, Qt
from qtpy.QtGui import QResizeEvent
from qtpy.QtWidgets import (
    QBoxLayout,
    QComboBox,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLayout,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QTableWidget,
    QVBoxLayout,
    QWidget,
)


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


def button(text: str, pressed: Callable[[], object], style: str = "", tip: str = "") -> QPushButton:
    """A push button."""
    made = QPushButton(text)
    if style:
        made.setObjectName(style)
    if tip:
        made.setToolTip(tip)
    made.setAccessibleName(text)
    made.clicked.connect(lambda _checked=False: pressed())
    return made


def column(*items: QWidget | QLayout | int, margin: int = 0, spacing: int = 8) -> QVBoxLayout:
    """Things below each other; a number is a stretch of that weight."""
    layout = QVBoxLayout()
    _fill(layout, items, margin, spacing)
    return layout


def row(*items: QWidget | QLayout | int, margin: int = 0, spacing: int = 8) -> QHBoxLayout:
    """Things beside each other; a number is a stretch of that weight."""
    layout = QHBoxLayout()
    _fill(layout, items, margin, spacing)
    return layout


def _fill(
    layout: QBoxLayout, items: tuple[QWidget | QLayout | int, ...], margin: int, spacing: int
) -> None:
    layout.setContentsMargins(margin, margin, margin, margin)
    layout.setSpacing(spacing)
    for item in items:
        if isinstance(item, int):
            layout.addStretch(item)
        elif isinstance(item, QLayout):
            layout.addLayout(item)
        else:
            layout.addWidget(item)


def framed(layout: QLayout, style: str = "card") -> QFrame:
    """A frame around a layout."""
    frame = QFrame()
    frame.setObjectName(style)
    frame.setLayout(layout)
    return frame


class VerticalScroll(QScrollArea):
    """Scrolls up and down only; never narrower than what is in it."""

    def __init__(self, content: QWidget) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWidget(content)

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        hint = super().minimumSizeHint()
        bar = self.verticalScrollBar().sizeHint().width()
        return QSize(self.widget().minimumSizeHint().width() + bar, hint.height())


def scrolled(content: QWidget) -> QScrollArea:
    """A scroll area that is as wide as its content needs and never scrolls sideways."""
    return VerticalScroll(content)


def restyle(widget: QWidget, name: str, value: str) -> None:
    """Set a property that the style sheet looks at."""
    if widget.property(name) != value:
        widget.setProperty(name, value)
        widget.style().unpolish(widget)
        widget.style().polish(widget)


def tab_chain(*widgets: QWidget) -> None:
    """Let the Tab key go through widgets in this order."""
    for before, after in itertools.pairwise(widgets):
        QWidget.setTabOrder(before, after)


def as_panel(widget: QWidget) -> None:
    """Give a plain widget the ground of a panel."""
    widget.setObjectName("panel")
    widget.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)


def clear(layout: QLayout) -> None:
    """Remove and delete everything in a layout."""
    while (item := layout.takeAt(0)) is not None:
        if (widget := item.widget()) is not None:
            widget.setParent(None)
            widget.deleteLater()
        elif (inner := item.layout()) is not None:
            clear(inner)


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

    def say(self, title: str, text: str) -> None:
        """Change the words."""
        self._title.setText(title)
        self._text.setText(text)


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

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._elide()

    def _elide(self) -> None:
        mode = Qt.TextElideMode.ElideRight
        self.setText(self.fontMetrics().elidedText(self._full, mode, max(10, self.width())))


def plain_table(table: QTableWidget) -> None:
    """A table to read: no row numbers, no grid, no editing, titles above their columns."""
    table.verticalHeader().hide()
    table.setShowGrid(False)
    table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
    left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
    table.horizontalHeader().setDefaultAlignment(left)


def modest(box: QComboBox, letters: int = 14) -> None:
    """Keep a drop-down list from becoming as wide as its longest entry."""
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    box.setMinimumContentsLength(letters)
    box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    box.installEventFilter(NoWheel(box))


class NoWheel(QObject):
    """Keeps the mouse wheel from changing a field that scrolls past under it."""

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        if event.type() == QEvent.Type.Wheel and not watched.hasFocus():
            event.ignore()
            return True
        return bool(super().eventFilter(watched, event))
