"""A small button beside a line that offers the values people choose most."""

from collections.abc import Callable, Sequence

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QLineEdit, QMenu, QToolButton

from gym_gui.widgets.qt_types import sure


def quick_values(line: QLineEdit, values: Callable[[], Sequence[tuple[str, str]]]) -> QToolButton:
    """A button whose menu fills in a line.

    Args:
        line: The line.
        values: What the menu says and what it types, asked for when the menu opens.
    """
    made = QToolButton()
    made.setObjectName("flat")
    made.setArrowType(Qt.ArrowType.DownArrow)
    made.setAccessibleName(f"Usual values of {line.accessibleName()}")
    made.setToolTip("Usual values")
    made.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
    # The line itself is the stop of the Tab key; the menu is for the mouse.
    made.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    menu = QMenu(made)

    def fill() -> None:
        menu.clear()
        for title, text in values():
            sure(menu.addAction(title)).triggered.connect(
                lambda _on=False, typed=text: line.setText(typed)
            )

    menu.aboutToShow.connect(fill)
    made.setMenu(menu)
    return made
