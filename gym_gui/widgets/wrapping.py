"""What lets panels become narrow: rows that wrap, splitters that fold, panels that scroll."""

from qtpy.QtCore import QEvent, QPoint, QRect, QSize, Qt
from qtpy.QtGui import QResizeEvent
from qtpy.QtWidgets import (
    QFrame,
    QLayout,
    QLayoutItem,
    QScrollArea,
    QSizePolicy,
    QSplitter,
    QWidget,
)

from gym_gui.widgets.qt_types import sure

# Narrower, a panel shows too little of anything to be worth scrolling.
_NARROWEST, _LOWEST = 200, 120
# Of parts below each other, against 1000 for each of the others.
_FIRST_SHARE = 3000


class WrappingRow(QLayout):
    """Things beside each other, continued on the next line where the width ends.

    What is left of a line goes to the widgets in it that like to grow.
    """

    def __init__(self, *widgets: QWidget, spacing: int = 6) -> None:
        super().__init__()
        self._items: list[QLayoutItem] = []
        self.setContentsMargins(0, 0, 0, 0)
        self.setSpacing(spacing)
        for widget in widgets:
            self.addWidget(widget)

    def addItem(self, item: QLayoutItem | None) -> None:  # noqa: N802
        self._items.append(sure(item))

    def insert_widget(self, place: int, widget: QWidget) -> None:
        """Add a widget before those that are there."""
        self.addWidget(widget)
        self._items.insert(place, self._items.pop())
        self.invalidate()

    def count(self) -> int:
        return len(self._items)

    def itemAt(self, place: int) -> QLayoutItem | None:  # noqa: N802
        return self._items[place] if 0 <= place < len(self._items) else None

    def takeAt(self, place: int) -> QLayoutItem | None:  # noqa: N802
        return self._items.pop(place) if 0 <= place < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:  # noqa: N802
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:  # noqa: N802
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        return self._arrange(QRect(0, 0, width, 0), move=False)

    def sizeHint(self) -> QSize:  # noqa: N802
        hints = [item.sizeHint() for item in self._shown()]
        width = sum(hint.width() for hint in hints) + self.spacing() * max(0, len(hints) - 1)
        return QSize(width, max((hint.height() for hint in hints), default=0))

    def minimumSize(self) -> QSize:  # noqa: N802
        sizes = [item.minimumSize() for item in self._shown()]
        return QSize(
            max((size.width() for size in sizes), default=0),
            max((size.height() for size in sizes), default=0),
        )

    def setGeometry(self, area: QRect) -> None:  # noqa: N802
        super().setGeometry(area)
        self._arrange(area, move=True)

    def _shown(self) -> list[QLayoutItem]:
        return [item for item in self._items if not item.isEmpty()]

    def _arrange(self, area: QRect, *, move: bool) -> int:
        """Place everything, or only find out how high it is."""
        top = area.top()
        for line in self._lines(area.width()):
            height = max(item.sizeHint().height() for item in line)
            if move:
                self._place(line, QPoint(area.left(), top), area.width(), height)
            top += height + self.spacing()
        return max(0, top - self.spacing() - area.top())

    def _lines(self, width: int) -> list[list[QLayoutItem]]:
        lines: list[list[QLayoutItem]] = []
        used = 0
        for item in self._shown():
            wide = item.sizeHint().width()
            if not lines or used + wide > width:
                lines.append([])
                used = 0
            lines[-1].append(item)
            used += wide + self.spacing()
        return lines

    def _place(self, line: list[QLayoutItem], at: QPoint, width: int, height: int) -> None:
        widths = [min(width, item.sizeHint().width()) for item in line]
        growing = [place for place, item in enumerate(line) if _likes_to_grow(item)]
        spare = width - sum(widths) - self.spacing() * (len(line) - 1)
        for place in growing:
            widths[place] += max(0, spare) // len(growing)
        left = at.x()
        for item, wide in zip(line, widths, strict=True):
            item.setGeometry(QRect(left, at.y(), wide, height))
            left += wide + self.spacing()


def _likes_to_grow(item: QLayoutItem) -> bool:
    widget = item.widget()
    return (
        widget is not None
        and widget.sizePolicy().horizontalPolicy() == QSizePolicy.Policy.Expanding
    )


class FoldingSplitter(QSplitter):
    """Parts beside each other, or below each other where that does not fit."""

    def __init__(self) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self.setChildrenCollapsible(False)
        self._beside: list[int] = []

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        needs = self._needs()
        width = max((need.width() for need in needs), default=0)
        heights = [need.height() for need in needs]
        folded = self.orientation() == Qt.Orientation.Vertical
        return QSize(width, sum(heights) if folded else max(heights, default=0))

    def resizeEvent(self, event: QResizeEvent | None) -> None:  # noqa: N802
        fits = self.width() >= sum(need.width() + self.handleWidth() for need in self._needs())
        wanted = Qt.Orientation.Horizontal if fits else Qt.Orientation.Vertical
        before = self.orientation()
        if wanted != self.orientation():
            self._beside = self._beside if fits else self.sizes()
            self._give_the_first_more()
            self.setOrientation(wanted)
            self.updateGeometry()
        super().resizeEvent(event)
        if wanted != before and not fits:
            # Qt would keep the shares that the parts had beside each other.
            self.setSizes([_FIRST_SHARE if place == 0 else 1000 for place in range(self.count())])
        elif wanted != before and any(self._beside):
            # Nor are the shares of parts below each other those that they had beside each other.
            self.setSizes(self._beside)

    def _give_the_first_more(self) -> None:
        """Below each other, the first part is what the panel is for, the others explain it."""
        for place in range(self.count()):
            part = sure(self.widget(place))
            policy = part.sizePolicy()
            policy.setVerticalStretch(3 if place == 0 else 1)
            part.setSizePolicy(policy)

    def _needs(self) -> list[QSize]:
        parts = [sure(self.widget(place)) for place in range(self.count())]
        return [
            part.minimumSizeHint().expandedTo(part.minimumSize())
            for part in parts
            if not part.isHidden()
        ]


class _Page(QWidget):
    """Holds one widget at its own size.

    Without a layout: a scroll area gives one whose height depends on its width the height that it
    likes, not the one that it needs, and would scroll where everything fits.
    """

    def __init__(self, content: QWidget) -> None:
        super().__init__()
        self._content = content
        content.setParent(self)

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return self._content.minimumSizeHint()

    def sizeHint(self) -> QSize:  # noqa: N802
        return self._content.sizeHint()

    def resizeEvent(self, event: QResizeEvent | None) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._content.setGeometry(self.rect())

    def event(self, event: QEvent | None) -> bool:
        # What is inside needs more or less room than before: the scroll area asks again.
        if event is not None and event.type() == QEvent.Type.LayoutRequest:
            self.updateGeometry()
        return bool(super().event(event))


class ScrollingPanel(QScrollArea):
    """A panel that may be smaller than what is in it, in both directions."""

    def __init__(self, content: QWidget) -> None:
        super().__init__()
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        # It only shows what is inside: the Tab key goes there, not to the frame.
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(_Page(content))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize(_NARROWEST, _LOWEST)

    def sizeHint(self) -> QSize:  # noqa: N802
        return sure(self.widget()).sizeHint()
