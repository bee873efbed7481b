"""How cells of the run table are painted and edited."""

from qtpy.QtCore import QModelIndex, QRect, QRectF, QSize, Qt
from qtpy.QtGui import QColor, QPainter
from qtpy.QtWidgets import (
    QLineEdit,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from gym_gui.models.run_order import Group
from gym_gui.models.run_table import ROW_ROLE
from gym_gui.resources import icons
from gym_gui.resources.theming import ThemeManager
from gym_gui.widgets.qt_types import sure
from mosaic.presenting.run_status import status_of

ROW_HEIGHT = 30


class ThemedDelegate(QStyledItemDelegate):
    """A cell with a thin frame when the keyboard is on it; groups are bold on a raised ground."""

    def __init__(self, themes: ThemeManager, parent: QWidget) -> None:
        super().__init__(parent)
        self.themes = themes

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex) -> QSize:  # noqa: N802
        hint = super().sizeHint(option, index)
        return QSize(hint.width(), max(ROW_HEIGHT, hint.height()))

    def initStyleOption(  # noqa: N802
        self, option: QStyleOptionViewItem | None, index: QModelIndex
    ) -> None:
        super().initStyleOption(option, index)
        if option is None:
            return
        # Qt's dotted frame; ours is drawn in `paint`.
        option.state &= ~QStyle.StateFlag.State_HasFocus
        if isinstance(index.data(ROW_ROLE), Group):
            option.font.setBold(True)
            option.backgroundBrush = self.themes.colour("raised")

    def paint(
        self, painter: QPainter | None, option: QStyleOptionViewItem, index: QModelIndex
    ) -> None:
        if painter is None:
            return
        focused = bool(option.state & QStyle.StateFlag.State_HasFocus)
        box = QRectF(option.rect).adjusted(0.5, 0.5, -0.5, -0.5)
        self.paint_cell(painter, option, index)
        if focused:
            painter.save()
            painter.setPen(self.themes.colour("accent"))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(box)
            painter.restore()

    def paint_cell(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex
    ) -> None:
        """Paint what is in the cell."""
        super().paint(painter, option, index)

    def setEditorData(self, editor: QWidget | None, index: QModelIndex) -> None:  # noqa: N802
        # News of a run must not overwrite what is being typed about it.
        if not (isinstance(editor, QLineEdit) and editor.isModified()):
            super().setEditorData(editor, index)


class StateDelegate(ThemedDelegate):
    """An icon and a word in the state's colour."""

    def paint_cell(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex
    ) -> None:
        run = index.data(ROW_ROLE)
        if run is None or isinstance(run, Group):
            super().paint_cell(painter, option, index)
            return
        self.initStyleOption(option, index)
        option.text = ""
        sure(option.widget.style()).drawControl(
            QStyle.ControlElement.CE_ItemViewItem, option, painter, option.widget
        )
        status = status_of(run)
        colour = self.themes.theme.tone(status.tone)
        ratio = option.widget.devicePixelRatioF()
        box = option.rect.adjusted(8, 0, -4, 0)
        size = 15
        top = box.center().y() - size // 2
        painter.drawPixmap(box.left(), top, icons.pixmap(status.icon, colour, size, ratio))
        painter.save()
        painter.setPen(QColor(colour))
        text = QRect(box.left() + size + 6, box.top(), box.width() - size - 6, box.height())
        painter.drawText(text, int(Qt.AlignmentFlag.AlignVCenter), status.label)
        painter.restore()


class ProgressDelegate(ThemedDelegate):
    """A thin bar with the share beside it."""

    def paint_cell(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex
    ) -> None:
        row = index.data(ROW_ROLE)
        if row is None:
            super().paint_cell(painter, option, index)
            return
        self.initStyleOption(option, index)
        text, option.text = option.text, ""
        sure(option.widget.style()).drawControl(
            QStyle.ControlElement.CE_ItemViewItem, option, painter, option.widget
        )
        fraction = row.progress if isinstance(row, Group) else row.progress.fraction
        tone = "accent" if isinstance(row, Group) else status_of(row).tone
        box = option.rect.adjusted(6, 0, -6, 0)
        space = option.fontMetrics.horizontalAdvance("100 %") + 6
        words = QRect(box.right() - space, box.top(), space, box.height())
        bar = QRectF(box.left(), box.center().y() - 2.5, max(10, box.width() - space - 8), 6)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self.themes.colour("border"))
        painter.drawRoundedRect(bar, 3, 3)
        painter.setBrush(self.themes.colour(tone))
        filled = QRectF(bar.left(), bar.top(), bar.width() * min(1.0, fraction), bar.height())
        if filled.width() >= 1:
            painter.drawRoundedRect(filled, 3, 3)
        painter.setPen(self.themes.colour("text"))
        alignment = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
        painter.drawText(words, int(alignment), text)
        painter.restore()
