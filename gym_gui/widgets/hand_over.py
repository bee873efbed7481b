"""The button of what can be made of a run for others: checked, exported, opened elsewhere."""

from collections.abc import Callable

from qtpy.QtGui import QAction
from qtpy.QtWidgets import QMenu, QToolButton

from mosaic.presenting.run_status import (
    can_be_joined,
    can_be_verified,
    has_policy,
    has_recordings,
    is_real,
)
from mosaic.records import RunRecord

# The window's action, what the menu calls it, and for which runs it makes sense.
_ENTRIES: tuple[tuple[str, str, Callable[[RunRecord], bool]], ...] = (
    ("run.take_over", "Watch and take over", can_be_joined),
    ("run.verify", "Verify", can_be_verified),
    ("run.notebook", "Open in notebook …", is_real),
    ("run.export_onnx", "Export ONNX …", has_policy),
    ("run.export_page", "Play in browser …", has_policy),
    ("run.export_minari", "Export Minari data set …", has_recordings),
)


class HandOverButton(QToolButton):
    """A menu of the actions; those that make no sense for the run are grey.

    Args:
        wanted: Called with the id of the action that was chosen.
    """

    def __init__(self, wanted: Callable[[str], object]) -> None:
        super().__init__()
        self.setText("Hand over")
        self.setAccessibleName("Hand over")
        self.setToolTip("Verify this run, or export what it has learned or recorded")
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self)
        self.entries: dict[str, QAction] = {}
        for action_id, title, _fits in _ENTRIES:
            entry = QAction(title, menu)
            entry.triggered.connect(lambda _on=False, name=action_id: wanted(name))
            menu.addAction(entry)
            self.entries[action_id] = entry
        self.setMenu(menu)

    def set_run(self, run: RunRecord) -> None:
        """Offer what makes sense for a run."""
        for action_id, _title, fits in _ENTRIES:
            self.entries[action_id].setEnabled(fits(run))
