"""Upright lines on a chart: where something began."""

from collections.abc import Callable, Sequence

import pyqtgraph as pg
from qtpy.QtCore import Qt

Mark = tuple[float, str]


class MarkItems:
    """Draws the marks of a chart."""

    def __init__(self, plot: pg.PlotWidget) -> None:
        self._plot = plot
        self._items: list[pg.InfiniteLine] = []
        self._colour = ""
        self.shown: tuple[Mark, ...] = ()
        # What a press on a mark does, with its step.
        self.clicked: Callable[[float], object] | None = None

    def show(self, marks: Sequence[Mark], colour: str) -> None:
        """Draw these and no others."""
        if tuple(marks) == self.shown and colour == self._colour:
            return  # a chart is drawn several times a second, its marks change once an hour
        for item in self._items:
            self._plot.removeItem(item)
        self._items, self.shown, self._colour = [], tuple(marks), colour
        pen = pg.mkPen(colour, width=1.4, style=Qt.PenStyle.DashLine)
        for place, (at, text) in enumerate(marks):
            # One below the other: several alarms often begin at nearly the same step.
            options = {"position": max(0.1, 0.92 - 0.12 * place), "color": colour}
            line = pg.InfiniteLine(at, angle=90, pen=pen, label=text, labelOpts=options)
            line.sigClicked.connect(self._on_click)
            self._items.append(line)
            self._plot.addItem(line, ignoreBounds=True)

    def _on_click(self, line: pg.InfiniteLine, _event: object) -> None:
        if self.clicked is not None:
            self.clicked(float(line.value()))
