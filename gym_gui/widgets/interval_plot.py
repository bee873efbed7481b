"""Scores of configurations side by side: one dot a seed, the mean, and the interval around it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyqtgraph as pg
from qtpy.QtGui import QColor
from qtpy.QtWidgets import QWidget

from gym_gui.models.series import Floats
from gym_gui.resources.theming import ThemeManager
from gym_gui.widgets.axis import ReadableAxis
from gym_gui.widgets.layouts import column

_ROW_HEIGHT = 44
# Room for the axis below the last row.
_AXIS_HEIGHT = 52


@dataclass(frozen=True)
class IntervalRow:
    """One configuration.

    Attributes:
        scores: One for each seed.
        low: Where the interval begins; None with too few seeds for one.
        high: Where it ends.
    """

    name: str
    colour: str
    scores: Floats
    mean: float
    low: float | None = None
    high: float | None = None


class IntervalPlot(QWidget):
    """Rows from top to bottom, as in the table below it."""

    def __init__(self, themes: ThemeManager) -> None:
        super().__init__()
        self._bottom = ReadableAxis("bottom")
        self._plot = pg.PlotWidget(enableMenu=False, axisItems={"bottom": self._bottom})
        self._plot.hideButtons()
        self._plot.setMouseEnabled(x=False, y=False)
        self._plot.setAccessibleName("Scores with their intervals")
        self.setLayout(column(self._plot))
        self._themes = themes
        self._rows: tuple[IntervalRow, ...] = ()
        themes.changed.connect(self._draw)

    @property
    def rows(self) -> tuple[IntervalRow, ...]:
        """What is drawn."""
        return self._rows

    def show_rows(self, rows: Sequence[IntervalRow], metric: str) -> None:
        """Draw these and no others."""
        self._rows = tuple(rows)
        self._bottom.setLabel(metric)
        self.setFixedHeight(_ROW_HEIGHT * max(1, len(rows)) + _AXIS_HEIGHT)
        self._draw()

    def _draw(self) -> None:
        theme = self._themes.theme
        self._plot.clear()
        self._plot.setBackground(theme.surface)
        for name in ("left", "bottom"):
            axis = self._plot.getAxis(name)
            axis.setPen(theme.border)
            axis.setTextPen(theme.text if name == "left" else theme.muted)
        count = len(self._rows)
        places = [(count - 1 - at, row) for at, row in enumerate(self._rows)]
        self._plot.getAxis("left").setTicks([[(place, row.name) for place, row in places]])
        for place, row in places:
            self._draw_row(place, row)
        self._plot.setYRange(-0.6, count - 0.4, padding=0)
        self._plot.showGrid(x=True, y=False, alpha=0.14)

    def _draw_row(self, place: int, row: IntervalRow) -> None:
        pale = QColor(row.colour)
        pale.setAlpha(110)
        # Above the interval, so that neither hides the other.
        seeds = pg.ScatterPlotItem(
            row.scores, np.full(len(row.scores), place + 0.2), size=7, brush=pale, pen=None
        )
        self._plot.addItem(seeds)
        if row.low is not None and row.high is not None:
            pen = pg.mkPen(row.colour, width=3)
            self._plot.addItem(pg.PlotDataItem([row.low, row.high], [place - 0.1] * 2, pen=pen))
        middle = pg.ScatterPlotItem(
            [row.mean], [place - 0.1], size=12, symbol="d", brush=row.colour, pen=None
        )
        self._plot.addItem(middle)
