"""A list of cards that can be added, removed and moved: for what has an order and many fields."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QFrame, QLabel, QToolButton, QVBoxLayout, QWidget

from gym_gui.widgets.controls import button
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, framed, row


class Card(QWidget):
    """What is filled in for one item of a list.

    Signals:
        edited: Something was changed.
    """

    edited = Signal()

    def set_place(self, place: int, count: int) -> None:
        """Learn which of so many items it is, from 0; called whenever that changes."""

    def tab_stops(self) -> tuple[QWidget, ...]:
        """Where the Tab key stops in it.

        The focusable widgets themselves: Qt loses the chain at one that only hands focus on.
        """
        return ()


C = TypeVar("C", bound=Card)


class CardList(QWidget, Generic[C]):
    """Cards below each other, each with buttons that move and remove it.

    Signals:
        edited: A card was changed, added, removed or moved.
        rearranged: Only the latter three; the Tab key has to learn the new order.
    """

    edited = Signal()
    rearranged = Signal()

    def __init__(self, noun: str, make: Callable[[], C], least: int = 1) -> None:
        """Begin with no cards.

        Args:
            noun: What a card is for, such as `stage`.
            make: Makes an empty card.
            least: How few there may be; fewer cannot be left by removing.
        """
        super().__init__()
        self._noun, self._make, self._least = noun, make, least
        self._slots: list[_Slot[C]] = []
        self._column = QVBoxLayout()
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(6)
        self.add = button(f"Add a {noun}", self.append)
        self.setLayout(column(self._column, row(self.add, 1), spacing=6))

    @property
    def cards(self) -> Sequence[C]:
        """The cards, in order."""
        return [slot.card for slot in self._slots]

    def append(self) -> C:
        """Add an empty card at the end."""
        card = self._make()
        slot = _Slot(card, self._noun)
        self._slots.append(slot)
        self._column.addWidget(slot.frame)
        slot.up.clicked.connect(lambda: self.move_card(card, -1))
        slot.down.clicked.connect(lambda: self.move_card(card, 1))
        slot.gone.clicked.connect(lambda: self.remove(card))
        card.edited.connect(self.edited)
        self._renumber()
        return card

    def remove(self, card: C) -> None:
        """Take a card away."""
        slot = self._slots.pop(self._index(card))
        self._column.removeWidget(slot.frame)
        # Hidden at once; the deletion itself waits for the event loop.
        slot.frame.setParent(None)
        slot.frame.deleteLater()
        self._renumber()

    def have(self, count: int) -> None:
        """Have so many cards; those that are there stay, for making one takes long."""
        for card in self.cards[count:]:
            self.remove(card)
        while len(self._slots) < count:
            self.append()

    def move_card(self, card: C, by: int) -> None:
        """Let a card and its neighbour change places."""
        old = self._index(card)
        new = old + by
        if not 0 <= new < len(self._slots):
            return
        slot = self._slots.pop(old)
        self._slots.insert(new, slot)
        self._column.removeWidget(slot.frame)
        self._column.insertWidget(new, slot.frame)
        self._renumber()

    def tab_stops(self) -> list[QWidget]:
        """Where the Tab key stops: card by card, each with its buttons, then what adds one."""
        stops: list[QWidget] = []
        for slot in self._slots:
            stops += [*slot.card.tab_stops(), slot.up, slot.down, slot.gone]
        return [*stops, self.add]

    def buttons_of(self, card: C) -> "tuple[QToolButton, QToolButton, QToolButton]":
        """The buttons that move a card up, move it down and remove it."""
        slot = self._slots[self._index(card)]
        return slot.up, slot.down, slot.gone

    def _index(self, card: C) -> int:
        return next(place for place, slot in enumerate(self._slots) if slot.card is card)

    def _renumber(self) -> None:
        count = len(self._slots)
        for place, slot in enumerate(self._slots):
            slot.show_place(place, count, removable=count > self._least)
            slot.card.set_place(place, count)
        self.rearranged.emit()
        self.edited.emit()


class _Slot(Generic[C]):
    """A card in its frame, with its number and its buttons."""

    def __init__(self, card: C, noun: str) -> None:
        self.card, self._noun = card, noun
        self._title: QLabel = label("", "section")
        self.up, self.down, self.gone = _small("↑"), _small("↓"), _small("×")
        head = row(self._title, 1, self.up, self.down, self.gone, spacing=2)
        self.frame: QFrame = framed(column(head, card, margin=8, spacing=4))

    def show_place(self, place: int, count: int, *, removable: bool) -> None:
        """Say which one it is, and what can be done with it."""
        name = f"{self._noun} {place + 1}"
        self._title.setText(name.capitalize())
        self.up.setEnabled(place > 0)
        self.down.setEnabled(place < count - 1)
        self.gone.setEnabled(removable)
        for made, words in ((self.up, "Move {} up"), (self.down, "Move {} down")):
            made.setAccessibleName(words.format(name))
            made.setToolTip(words.format(name))
        self.gone.setAccessibleName(f"Remove {name}")
        self.gone.setToolTip(f"Remove {name}")


def _small(sign: str) -> QToolButton:
    made = QToolButton()
    made.setObjectName("flat")
    made.setText(sign)
    return made
