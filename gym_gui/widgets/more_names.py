"""A button that opens a list of names to tick, with a filter: for choosing several of many."""

from collections.abc import Iterable, Sequence

from qtpy.QtCore import QPoint, Qt, Signal
from qtpy.QtWidgets import QFrame, QLineEdit, QListWidget, QListWidgetItem, QToolButton

from gym_gui.widgets.layouts import column

_WIDTH, _HEIGHT = 300, 340


class MoreNames(QToolButton):
    """Names besides the one that is chosen elsewhere.

    Signals:
        changed: Others are ticked.
    """

    changed = Signal()

    def __init__(self, noun: str) -> None:
        super().__init__()
        self._noun = noun
        self._names: list[str] = []
        self._chosen: list[str] = []
        self._without = ""
        self.setSizePolicy(self.sizePolicy().Policy.Ignored, self.sizePolicy().Policy.Fixed)
        self.setAccessibleName(f"More {noun}")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.popup = QFrame(self, Qt.WindowType.Popup)
        self.popup.setObjectName("card")
        self.filter = QLineEdit()
        self.filter.setPlaceholderText(f"Search {noun}")
        self.filter.setAccessibleName(f"Search {noun}")
        self.list = QListWidget()
        self.list.setAccessibleName(f"More {noun}")
        self.popup.setLayout(column(self.filter, self.list, margin=6, spacing=4))
        self.popup.resize(_WIDTH, _HEIGHT)
        self.filter.textChanged.connect(self._narrow)
        self.list.itemChanged.connect(self._on_tick)
        self.clicked.connect(self.open)
        self._show()

    @property
    def chosen(self) -> list[str]:
        """The ticked names, in the order in which they were ticked."""
        return [name for name in self._chosen if name != self._without]

    def set_chosen(self, names: Iterable[str]) -> None:
        """Tick these and no others."""
        self._chosen = list(dict.fromkeys(names))
        self._show()

    def set_choices(self, names: Sequence[str]) -> None:
        """Offer these names; what is ticked stays ticked."""
        self._names = list(names)

    def leave_out(self, name: str) -> None:
        """Do not offer the name that is chosen elsewhere."""
        if name != self._without:
            self._without = name
            self._show()

    def open(self) -> None:
        """Show the list below the button."""
        self.filter.clear()
        # Filling the list would report every tick as one that a person made.
        self.list.blockSignals(True)
        self.list.clear()
        for name in self._names:
            if name == self._without:
                continue
            item = QListWidgetItem(name)
            ticked = Qt.CheckState.Checked if name in self._chosen else Qt.CheckState.Unchecked
            item.setFlags(item.flags() | Qt.ItemFlag.ItemIsUserCheckable)
            item.setCheckState(ticked)
            self.list.addItem(item)
        self.list.blockSignals(False)
        self.popup.move(self.mapToGlobal(QPoint(0, self.height())))
        self.popup.show()
        self.filter.setFocus()

    def _narrow(self, text: str) -> None:
        for place in range(self.list.count()):
            item = self.list.item(place)
            if item is not None:
                item.setHidden(text.lower() not in item.text().lower())

    def _on_tick(self, item: QListWidgetItem) -> None:
        name = item.text()
        if item.checkState() == Qt.CheckState.Checked and name not in self._chosen:
            self._chosen.append(name)
        elif item.checkState() != Qt.CheckState.Checked and name in self._chosen:
            self._chosen.remove(name)
        self._show()
        self.changed.emit()

    def _show(self) -> None:
        chosen = self.chosen
        self.setText(f"and {', '.join(chosen)}" if chosen else f"+ {self._noun}")
        self.setToolTip(
            ", ".join(chosen) if chosen else f"Train in more {self._noun}, as one experiment"
        )
