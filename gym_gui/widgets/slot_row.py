"""The slots of a machine as squares: those that a run holds are filled, and lead to it."""

from collections.abc import Sequence

from qtpy.QtCore import QEvent, QPoint, QRectF, QSize, Qt, Signal
from qtpy.QtGui import QHelpEvent, QMouseEvent, QPainter, QPaintEvent
from qtpy.QtWidgets import QSizePolicy, QToolTip, QWidget

from gym_gui.models.machine import SlotCell
from gym_gui.resources.theming import ThemeManager

_SIDE, _GAP = 15, 5


class SlotRow(QWidget):
    """Squares in as many lines as the width needs.

    Signals:
        chosen: The run of a square that was clicked.
    """

    chosen = Signal(str)

    def __init__(self, themes: ThemeManager) -> None:
        super().__init__()
        self._themes = themes
        self._cells: Sequence[SlotCell] = ()
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        themes.changed.connect(self.update)

    def show_slots(self, kind: str, cells: Sequence[SlotCell]) -> None:
        """Show these slots, which people call `kind`."""
        self._cells = cells
        used = sum(bool(cell.run_id) for cell in cells)
        self.setAccessibleName(f"{kind}: {used} of {len(cells)} in use")
        self.setVisible(bool(cells))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(8 * (_SIDE + _GAP), self.heightForWidth(self.width()))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize(_SIDE, _SIDE)

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        lines = -(-len(self._cells) // self._per_line(width))
        return max(1, lines) * (_SIDE + _GAP) - _GAP

    def paintEvent(self, event: QPaintEvent | None) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        for place, cell in enumerate(self._cells):
            painter.setBrush(self._themes.colour(cell.tone))
            painter.drawRoundedRect(self._square(place), 3, 3)

    def event(self, event: QEvent | None) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            cell = self._at(event.pos())
            QToolTip.showText(event.globalPos(), f"{cell.name}: {cell.tip}" if cell else "", self)
            return True
        return bool(super().event(event))

    def mousePressEvent(self, event: QMouseEvent | None) -> None:  # noqa: N802
        cell = self._at(event.pos()) if event is not None else None
        if cell is not None and cell.run_id:
            self.chosen.emit(cell.run_id)

    def _per_line(self, width: int) -> int:
        return max(1, (width + _GAP) // (_SIDE + _GAP))

    def _square(self, place: int) -> QRectF:
        line, at = divmod(place, self._per_line(self.width()))
        return QRectF(at * (_SIDE + _GAP), line * (_SIDE + _GAP), _SIDE, _SIDE)

    def _at(self, point: QPoint) -> SlotCell | None:
        for place, cell in enumerate(self._cells):
            if self._square(place).contains(point.toPointF()):
                return cell
        return None
