"""A question with one line to type, that waits without stopping anything else."""

from collections.abc import Callable

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QInputDialog, QWidget


def ask_name(
    parent: QWidget, title: str, text: str, name: str, done: Callable[[str], object]
) -> None:
    """Ask for a name; `done` gets it, unless it is empty or the question is dismissed."""
    dialog = QInputDialog(parent)
    dialog.setWindowTitle(title)
    dialog.setLabelText(text)
    dialog.setTextValue(name)
    dialog.textValueSelected.connect(lambda typed: done(typed.strip()) if typed.strip() else None)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.open()
