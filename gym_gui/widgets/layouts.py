"""Rows, columns, frames and scroll areas in the house style."""

import itertools
from collections.abc import Mapping

from qtpy.QtCore import QEvent, QObject, QSize, Qt
from qtpy.QtWidgets import (
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QLayout,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from gym_gui.widgets.qt_types import sure


def column(
    *items: QWidget | QLayout | int,
    margin: int = 0,
    spacing: int = 8,
    stretch: Mapping[int, int] | None = None,
) -> QVBoxLayout:
    """Things below each other; a number is a stretch of that weight.

    `stretch` gives weights to things by their place.
    """
    layout = QVBoxLayout()
    _fill(layout, items, margin, spacing)
    for place, weight in (stretch or {}).items():
        layout.setStretch(place, weight)
    return layout


def row(
    *items: QWidget | QLayout | int,
    margin: int = 0,
    spacing: int = 8,
    stretch: Mapping[int, int] | None = None,
) -> QHBoxLayout:
    """Things beside each other; a number is a stretch of that weight.

    `stretch` gives weights to things by their place.
    """
    layout = QHBoxLayout()
    _fill(layout, items, margin, spacing)
    for place, weight in (stretch or {}).items():
        layout.setStretch(place, weight)
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
        # It only shows what is inside: the Tab key goes there, not to the frame.
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(content)

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:  # noqa: N802
        # Qt watches the content for its own part, but tells no one around it that this area now
        # needs more width, or less: what was put into a form later would be cut at its right edge.
        if event is not None and event.type() == QEvent.Type.LayoutRequest:
            self.updateGeometry()
        return bool(super().eventFilter(watched, event))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        hint = super().minimumSizeHint()
        bar = sure(self.verticalScrollBar()).sizeHint().width()
        content = sure(self.widget())
        needed = content.minimumSizeHint().expandedTo(content.minimumSize())
        return QSize(needed.width() + bar, hint.height())


def scrolled(content: QWidget) -> QScrollArea:
    """A scroll area that is as wide as its content needs and never scrolls sideways."""
    return VerticalScroll(content)


def clear(layout: QLayout) -> None:
    """Remove and delete everything in a layout."""
    while (item := layout.takeAt(0)) is not None:
        if (widget := item.widget()) is not None:
            # Hidden at once; the deletion itself waits for the event loop.
            widget.setParent(None)
            widget.deleteLater()
        elif (inner := item.layout()) is not None:
            clear(inner)


def as_panel(widget: QWidget) -> None:
    """Give a plain widget the ground of a panel."""
    widget.setObjectName("panel")
    widget.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)


def tab_chain(*widgets: QWidget) -> None:
    """Let the Tab key go through widgets in this order."""
    for before, after in itertools.pairwise(widgets):
        QWidget.setTabOrder(before, after)
