"""The interval around single curves, where their runs have written one down."""

from collections.abc import Mapping

import numpy as np
import pyqtgraph as pg
from qtpy.QtGui import QColor

from gym_gui.widgets.chart_lines import Line, Look


class EndItems:
    """A pale area between the lower and the upper end of each curve that has them."""

    def __init__(self, plot: pg.PlotWidget) -> None:
        self._plot = plot
        self._areas: list[pg.PlotDataItem | pg.FillBetweenItem] = []

    @property
    def count(self) -> int:
        """How many intervals are drawn."""
        return sum(isinstance(one, pg.FillBetweenItem) for one in self._areas)

    def show(self, lines: Mapping[str, Line], look: Look) -> None:
        """Draw the intervals of these curves and no others."""
        for area in self._areas:
            self._plot.removeItem(area)
        self._areas = []
        for line in lines.values():
            if line.ends is not None:
                self._draw(line, look)

    def _draw(self, line: Line, look: Look) -> None:
        assert line.ends is not None
        edges = []
        for end in line.ends:
            values = np.where(end.values > 0, end.values, np.nan) if look.log_y else end.values
            edge = pg.PlotDataItem(line.across(look, end), values, pen=None)
            self._plot.addItem(edge)
            edges.append(edge)
        colour = QColor(line.colour)
        colour.setAlpha(50)
        area = pg.FillBetweenItem(*edges, brush=colour)
        area.setZValue(-2)
        self._plot.addItem(area)
        self._areas += [*edges, area]
