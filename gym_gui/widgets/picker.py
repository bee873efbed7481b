"""A drop-down list one can type into, with titled groups and a hint when nothing matches."""

from collections.abc import Iterable

from qtpy.QtCore import QSortFilterProxyModel, Qt, Signal
from qtpy.QtGui import QStandardItem, QStandardItemModel
from qtpy.QtWidgets import QComboBox, QCompleter, QWidget

from gym_gui.widgets.controls import modest, restyle
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column
from gym_gui.widgets.qt_types import sure
from mosaic.config.suggest import did_you_mean

_CHOICE_ROLE = Qt.ItemDataRole.UserRole + 1


class Picker(QWidget):
    """Choose one of many names, grouped.

    Signals:
        picked: A valid name was chosen or typed.
        checked: What is typed was looked at; `problem` is up to date.
    """

    picked = Signal(str)
    checked = Signal()

    def __init__(self, noun: str) -> None:
        super().__init__()
        self._noun = noun
        self._names: set[str] = set()
        self.problem = ""
        self._items = QStandardItemModel(self)
        self.combo = QComboBox()
        self.combo.setEditable(True)
        # What is typed is checked, never added to the list.
        self.combo.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.combo.setModel(self._items)
        self.combo.setMaxVisibleItems(24)
        self.combo.setAccessibleName(noun)
        modest(self.combo)
        # Headings are in the list but must not be completed to.
        self._choices = QSortFilterProxyModel(self)
        self._choices.setSourceModel(self._items)
        self._choices.setFilterRole(_CHOICE_ROLE)
        self._choices.setFilterFixedString("choice")
        completer = QCompleter(self._choices, self)
        completer.setFilterMode(Qt.MatchFlag.MatchContains)
        completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        completer.setMaxVisibleItems(14)
        self.combo.setCompleter(completer)
        self.combo.currentTextChanged.connect(self._on_text)
        self._error = label("", "error", wrap=True)
        self._error.hide()
        self.setLayout(column(self.combo, self._error, spacing=2))
        self.setFocusProxy(self.combo)

    def set_choices(self, groups: Iterable[tuple[str, Iterable[str]]]) -> None:
        """Replace the list; what is typed stays."""
        text = self.text
        # Emptying the list would report every text in between as a choice.
        self.combo.blockSignals(True)
        self._items.clear()
        self._names.clear()
        rows: list[QStandardItem] = []
        for title, names in groups:
            if title:
                heading = QStandardItem(title)
                heading.setFlags(Qt.ItemFlag.NoItemFlags)
                font = heading.font()
                font.setBold(True)
                heading.setFont(font)
                rows.append(heading)
            for name in names:
                item = QStandardItem(name)
                item.setData("choice", _CHOICE_ROLE)
                rows.append(item)
                self._names.add(name)
        # All at once: a view of the list would look at it again for each row.
        sure(self._items.invisibleRootItem()).appendRows(rows)
        self.combo.blockSignals(False)
        self.set_text(text)

    @property
    def text(self) -> str:
        """What is chosen or typed."""
        return str(self.combo.currentText()).strip()

    def set_text(self, text: str) -> None:
        """Choose a name."""
        place = self.combo.findText(text, Qt.MatchFlag.MatchExactly)
        self.combo.blockSignals(True)
        self.combo.setCurrentIndex(place)
        self.combo.setEditText(text)
        self.combo.blockSignals(False)
        self._on_text(text)

    @property
    def ordered(self) -> list[str]:
        """Every name that can be chosen, in the order of the list."""
        items = (self._items.item(place) for place in range(self._items.rowCount()))
        return [one.text() for one in items if one is not None and one.text() in self._names]

    @property
    def names(self) -> set[str]:
        """Every name that can be chosen."""
        return self._names

    def _on_text(self, text: str) -> None:
        typed = text.strip()
        known = not self._names or typed in self._names
        self.problem = "" if known else self._hint(typed)
        self._error.setText(self.problem)
        self._error.setVisible(bool(self.problem))
        restyle(self.combo, "problem", "true" if self.problem else "false")
        if known and typed:
            self.picked.emit(typed)
        self.checked.emit()

    def _hint(self, typed: str) -> str:
        if not typed:
            return (
                f"choose an {self._noun}" if self._noun[0] in "aeio" else f"choose a {self._noun}"
            )
        return f"there is no {self._noun} {typed!r} that fits{did_you_mean(typed, self._names)}"
