"""The names of the runs in a comparison, shortened so that what tells them apart stays visible."""

import re
from collections.abc import Sequence

from qtpy.QtCore import Qt
from qtpy.QtGui import QResizeEvent
from qtpy.QtWidgets import QListWidget, QListWidgetItem

from gym_gui.models.run_order import common_start

_FULL_ROLE = Qt.ItemDataRole.UserRole + 1
# The tick, the colour and the space around them.
_BESIDE_TEXT = 66
_SEPARATORS = " ·-_/"
_SEED = re.compile(r"seed ?\d*$")


def tell_apart(names: Sequence[str]) -> list[str]:
    """Names without the beginning that they share: `… seed 1` and `… seed 2`.

    The cut is made between words. Names that share nothing, or of which one would vanish, stay.
    """
    # The number of a seed says nothing without its word.
    shared = _SEED.sub("", common_start(names))
    cut = max((shared.rfind(mark) + 1 for mark in _SEPARATORS), default=0)
    rests = [name[cut:] for name in names]
    if len(names) < 2 or not cut or not all(rests):
        return list(names)
    return [f"… {rest}" for rest in rests]


class LegendList(QListWidget):
    """A list of names; where they do not fit, the part that all share is left out first."""

    def __init__(self) -> None:
        super().__init__()
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        # A single name has nothing to share; its end tells a seed.
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)

    def add_name(self, item: QListWidgetItem) -> None:
        """Append an item, whose text is its whole name."""
        item.setData(_FULL_ROLE, item.text())
        self.addItem(item)

    def fit(self) -> None:
        """Shorten the names to the width that there is; call it once all are there."""
        items = [item for row in range(self.count()) if (item := self.item(row)) is not None]
        names = [str(item.data(_FULL_ROLE)) for item in items]
        viewport = self.viewport()
        room = (viewport.width() if viewport is not None else 0) - _BESIDE_TEXT
        metrics = self.fontMetrics()
        if any(metrics.horizontalAdvance(name) > room for name in names):
            names = tell_apart(names)
        # Not something that a person changed.
        before = self.blockSignals(True)
        for item, name in zip(items, names, strict=True):
            item.setText(name)
        self.blockSignals(before)

    def resizeEvent(self, event: QResizeEvent | None) -> None:  # noqa: N802
        super().resizeEvent(event)
        self.fit()
