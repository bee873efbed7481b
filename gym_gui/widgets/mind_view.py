"""An agent's beliefs and intention as they change; what is new stands out by mark and weight."""

from qtpy.QtCore import Qt
from qtpy.QtGui import QFont
from qtpy.QtWidgets import QListWidget, QListWidgetItem, QWidget

from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, framed
from mosaic.presenting.mind import Mind


class MindView(QWidget):
    """Hidden until an agent tells what it thinks."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: Mind | None = None
        self._decision = label("", "headline", wrap=True)
        self._intention = label("", wrap=True)
        self.beliefs = QListWidget()
        self.beliefs.setAccessibleName("Beliefs of the agent")
        self.beliefs.setWordWrap(True)
        self.beliefs.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        inside = column(
            label("Decision", "muted"),
            self._decision,
            label("Intention", "muted"),
            self._intention,
            label("Beliefs (• new since the last step)", "muted"),
            self.beliefs,
            margin=10,
            spacing=4,
        )
        self.setLayout(column(framed(inside)))
        self.setMinimumWidth(250)
        self.setMaximumWidth(340)
        self.hide()

    def show_mind(self, mind: Mind | None) -> None:
        """Show a state of mind beside what changed since the last one."""
        if mind is None:
            return
        changed = mind.changed_since(self._shown)
        self._decision.setText(mind.decision or "—")
        self._intention.setText(mind.intention or "—")
        self.beliefs.clear()
        for belief in mind.beliefs:
            fresh = belief in changed
            item = QListWidgetItem(f"• {belief}" if fresh else f"   {belief}")
            if fresh:
                font = QFont(self.beliefs.font())
                font.setBold(True)
                item.setFont(font)
            self.beliefs.addItem(item)
        self._shown = mind
        self.show()

    @property
    def intention(self) -> str:
        """What the agent wants, as it is shown."""
        return self._intention.text()

    def forget(self) -> None:
        """Another run is looked at."""
        self._shown = None
        self.beliefs.clear()
        self.hide()
