"""On which daemon new runs are started; shown only where there is a choice."""

from qtpy.QtWidgets import QComboBox, QWidget

from gym_gui.services import Services
from gym_gui.widgets.controls import modest
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import row


class WhereChoice(QWidget):
    """The daemons by name; the one in front is chosen."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._daemons = services.daemons
        self.box = QComboBox()
        self.box.setAccessibleName("Where")
        self.box.setToolTip(
            "New runs go to this daemon. What continues or evaluates a run goes where that run is."
        )
        modest(self.box)
        self.setLayout(row(label("Where", "section"), self.box))
        # Shown by `refresh` when it has a place: until then it would be a window of its own.
        self.hide()
        self._daemons.listed.connect(self.refresh)
        self._daemons.front_changed.connect(self.refresh)
        # Only what a person chooses: filling the list chooses too.
        self.box.activated.connect(self._on_chosen)

    def refresh(self) -> None:
        """Offer the daemons that there are now."""
        self.box.clear()
        for link in self._daemons.links:
            self.box.addItem(link.name, link)
        self.box.setCurrentIndex(self._daemons.links.index(self._daemons.front))
        self.setVisible(self._daemons.several)

    def _on_chosen(self) -> None:
        self._daemons.bring_to_front(self.box.currentData())
