"""The command palette: type, choose with the arrow keys, press Return."""

from collections.abc import Callable, Sequence

from qtpy.QtCore import QEvent, QModelIndex, QObject, QSize, Qt
from qtpy.QtGui import QKeyEvent, QPainter
from qtpy.QtWidgets import (
    QFrame,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from gym_gui.models.palette_items import PaletteItem, rank
from gym_gui.resources.theming import ThemeManager
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column
from gym_gui.widgets.qt_types import sure

_ITEM_ROLE = Qt.ItemDataRole.UserRole


class _HintDelegate(QStyledItemDelegate):
    """Paints the shortcut at the right edge."""

    def __init__(self, themes: ThemeManager, parent: QWidget) -> None:
        super().__init__(parent)
        self._themes = themes

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex) -> QSize:  # noqa: N802
        return QSize(200, option.fontMetrics.height() + 14)

    def paint(
        self, painter: QPainter | None, option: QStyleOptionViewItem, index: QModelIndex
    ) -> None:
        super().paint(painter, option, index)
        item = index.data(_ITEM_ROLE)
        if painter is not None and item.hint:
            painter.save()
            painter.setPen(self._themes.colour("muted"))
            box = option.rect.adjusted(8, 0, -12, 0)
            where = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
            painter.drawText(box, int(where), item.hint)
            painter.restore()


class CommandPalette(QFrame):
    """A box over the window with everything that can be done or found."""

    def __init__(self, parent: QWidget, themes: ThemeManager) -> None:
        super().__init__(parent)
        self.setObjectName("palette")
        self._themes = themes
        self._items: Sequence[PaletteItem] = ()
        self._recent: Sequence[str] = ()
        self._chosen: Callable[[str], None] = lambda _key: None
        self.line = QLineEdit()
        self.line.setAccessibleName("Command palette")
        self.line.textChanged.connect(self._fill)
        # The arrow keys move in the list while the cursor stays in the line.
        self.line.installEventFilter(self)
        self.list = QListWidget()
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setItemDelegate(_HintDelegate(themes, self.list))
        self.list.itemClicked.connect(lambda _item: self._choose())
        self._nothing = label("No match. Try another word.", "muted")
        self._nothing.hide()
        self.setLayout(column(self.line, self.list, self._nothing, margin=10))
        self.hide()

    def ask(
        self,
        placeholder: str,
        items: Sequence[PaletteItem],
        recent: Sequence[str],
        chosen: Callable[[str], None],
    ) -> None:
        """Open with these items; `chosen` gets the key of the one that is picked."""
        self._items, self._recent, self._chosen = items, recent, chosen
        self.line.setPlaceholderText(placeholder)
        self.line.clear()
        self._fill("")
        space = sure(self.parentWidget()).size()
        width, height = min(640, space.width() - 60), min(460, space.height() - 120)
        self.setGeometry((space.width() - width) // 2, 56, width, height)
        self.show()
        self.raise_()
        self.line.setFocus()

    def dismiss(self) -> None:
        """Close without choosing."""
        self.hide()
        sure(self.parentWidget()).setFocus()

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:  # noqa: N802
        if isinstance(event, QKeyEvent) and self._pressed(event):
            return True
        leaves = event is not None and event.type() == QEvent.Type.FocusOut
        if leaves and self.isVisible():
            self.hide()
        return bool(super().eventFilter(watched, event))

    def _pressed(self, event: QKeyEvent) -> bool:
        if event.type() != QEvent.Type.KeyPress:
            return False
        key = event.key()
        moves: dict[int, int] = {
            Qt.Key.Key_Down: 1,
            Qt.Key.Key_Up: -1,
            Qt.Key.Key_PageDown: 10,
            Qt.Key.Key_PageUp: -10,
        }
        if key in moves:
            last = self.list.count() - 1
            self.list.setCurrentRow(max(0, min(last, self.list.currentRow() + moves[key])))
            return True
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._choose()
            return True
        if key == Qt.Key.Key_Escape:
            self.dismiss()
            return True
        return False

    def _fill(self, query: str) -> None:
        self.list.clear()
        for item in rank(query, self._items, self._recent):
            made = QListWidgetItem(item.title)
            made.setData(_ITEM_ROLE, item)
            tone = "text" if item.enabled else "faint"
            made.setForeground(self._themes.colour(tone))
            if item.icon:
                made.setIcon(self._themes.icon(item.icon, tone))
            self.list.addItem(made)
        self.list.setCurrentRow(0)
        self._nothing.setVisible(self.list.count() == 0)

    def _choose(self) -> None:
        current = self.list.currentItem()
        if current is None:
            return
        item: PaletteItem = current.data(_ITEM_ROLE)
        if not item.enabled:
            return
        # Closed first: what is chosen may open a dialog, which would be below the palette.
        self.dismiss()
        self._chosen(item.key)
