"""Buttons, drop-down lists and tables as the window uses them, and a question for a name."""

from collections.abc import Callable

from qtpy.QtCore import QEvent, QObject, Qt
from qtpy.QtWidgets import QComboBox, QInputDialog, QLineEdit, QPushButton, QTableWidget, QWidget

from gym_gui.widgets.qt_types import sure


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


def restyle(widget: QWidget, name: str, value: str) -> None:
    """Set a property that the style sheet looks at."""
    if widget.property(name) != value:
        widget.setProperty(name, value)
        # Qt looks at a style sheet's property rules only when a widget is polished.
        sure(widget.style()).unpolish(widget)
        sure(widget.style()).polish(widget)


def plain_table(table: QTableWidget) -> None:
    """A table to read: no row numbers, no grid, no editing, titles above their columns."""
    sure(table.verticalHeader()).hide()
    table.setShowGrid(False)
    table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
    left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
    sure(table.horizontalHeader()).setDefaultAlignment(left)


def modest(box: QComboBox, letters: int = 14) -> None:
    """Keep a drop-down list from becoming as wide as its longest entry."""
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    box.setMinimumContentsLength(letters)
    box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    box.installEventFilter(NoWheel(box))


class NoWheel(QObject):
    """Keeps the mouse wheel from changing a field that scrolls past under it."""

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:  # noqa: N802
        wheel = event is not None and event.type() == QEvent.Type.Wheel
        if event is not None and wheel and isinstance(watched, QWidget) and not watched.hasFocus():
            event.ignore()
            return True
        return bool(super().eventFilter(watched, event))


def ask_name(
    parent: QWidget, title: str, text: str, name: str, done: Callable[[str], object]
) -> None:
    """Ask for a name; `done` gets it, unless it is empty or the question is dismissed."""
    dialog = _question(parent, title, text, done)
    dialog.setTextValue(name)
    dialog.open()


def ask_number(
    parent: QWidget,
    title: str,
    text: str,
    numbers: tuple[int, int, int],
    done: Callable[[int], object],
) -> None:
    """Ask for a whole number; `done` gets it, unless the question is dismissed.

    Args:
        parent: What the question is in front of.
        title: Of the question's window.
        text: The question.
        numbers: The smallest, the proposed and the largest.
        done: Gets the number.
    """
    dialog = _question(parent, title, text, lambda _text: None)
    dialog.setInputMode(QInputDialog.InputMode.IntInput)
    low, proposed, high = numbers
    dialog.setIntRange(low, high)
    dialog.setIntValue(proposed)
    dialog.intValueSelected.connect(done)
    dialog.open()


def ask_secret(parent: QWidget, title: str, text: str, done: Callable[[str], object]) -> None:
    """Ask for something that must not be seen on the screen; as `ask_name` otherwise."""
    dialog = _question(parent, title, text, done)
    dialog.setTextEchoMode(QLineEdit.EchoMode.Password)
    dialog.open()


def _question(
    parent: QWidget, title: str, text: str, done: Callable[[str], object]
) -> QInputDialog:
    dialog = QInputDialog(parent)
    dialog.setWindowTitle(title)
    dialog.setLabelText(text)
    dialog.textValueSelected.connect(lambda typed: done(typed.strip()) if typed.strip() else None)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    return dialog
