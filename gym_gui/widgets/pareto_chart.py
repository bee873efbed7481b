"""What agents reach against what they spend, with a line through those worth their price."""

from collections.abc import Sequence

import pyqtgraph as pg
from qtpy.QtCore import QPointF
from qtpy.QtWidgets import QComboBox, QWidget

from gym_gui.resources.theming import ThemeManager
from gym_gui.widgets.axis import ReadableAxis
from gym_gui.widgets.controls import modest
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, row
from mosaic.arena.pareto import PRICES, Point, frontier, points
from mosaic.arena.table import Row

_HEIGHT = 260


class ParetoChart(QWidget):
    """Successes over a price that can be chosen."""

    def __init__(self, themes: ThemeManager) -> None:
        super().__init__()
        self._themes = themes
        self._rows: Sequence[Row] = ()
        self.price = QComboBox()
        self.price.setAccessibleName("Price")
        self.price.setToolTip("What is spent")
        modest(self.price, 22)
        for one in PRICES:
            self.price.addItem(one.title, one)
        self.price.currentIndexChanged.connect(lambda _place: self._draw())
        self._axes = {name: ReadableAxis(name) for name in ("left", "bottom")}
        self._plot = pg.PlotWidget(enableMenu=False, axisItems=self._axes)
        self._plot.hideButtons()
        self._plot.setMouseEnabled(x=False, y=False)
        self._plot.setAccessibleName("Success over price")
        self._plot.setFixedHeight(_HEIGHT)
        self.missing = label("", "muted", wrap=True)
        head = row(label("Success and its price", "section"), 1, self.price)
        self.setLayout(column(head, self._plot, self.missing, spacing=6))
        themes.changed.connect(self._draw)

    @property
    def drawn(self) -> list[Point]:
        """The agents in the chart."""
        return points(self._rows, self.price.currentData())

    @property
    def frontier(self) -> list[Point]:
        """Those that the line goes through."""
        return frontier(self.drawn)

    def show_rows(self, rows: Sequence[Row]) -> None:
        """Draw these agents and no others."""
        self._rows = rows
        self._draw()

    def _draw(self) -> None:
        theme, found = self._themes.theme, self.drawn
        self._plot.clear()
        self._plot.setBackground(theme.surface)
        for axis in self._axes.values():
            axis.setPen(theme.border)
            axis.setTextPen(theme.muted)
        with_goal = any(one.success is not None for one in self._rows)
        self._axes["left"].setLabel("success" if with_goal else "return")
        self._axes["bottom"].setLabel(self.price.currentText().lower())
        self._plot.showGrid(x=True, y=True, alpha=0.14)
        best = self.frontier
        self._plot.addItem(
            pg.PlotDataItem(
                [one.spent for one in best],
                [one.reached for one in best],
                pen=pg.mkPen(theme.accent, width=2),
            )
        )
        for point in found:
            self._draw_point(point, point in best)
        unknown = [row.agent for row in self._rows if row.agent not in {p.agent for p in found}]
        self.missing.setText(f"Not drawn, nothing solved or no price: {', '.join(unknown)}")
        self.missing.setVisible(bool(unknown))
        self._frame(found)

    def _draw_point(self, point: Point, best: bool) -> None:
        theme = self._themes.theme
        # Shape as well as colour: what is worth its price is found without colours too.
        symbol, colour = ("d", theme.accent) if best else ("o", theme.muted)
        self._plot.addItem(
            pg.ScatterPlotItem(
                [point.spent], [point.reached], size=12, symbol=symbol, brush=colour, pen=None
            )
        )
        name = pg.TextItem(point.agent, color=theme.text, anchor=(0, 1.1))
        name.setPos(QPointF(point.spent, point.reached))
        self._plot.addItem(name, ignoreBounds=True)

    def _frame(self, found: Sequence[Point]) -> None:
        if not found:
            return
        dearest = max(point.spent for point in found) or 1.0
        low, high = min(p.reached for p in found), max(p.reached for p in found)
        margin = max(0.1, (high - low) * 0.2)
        # Room at the right for the name of the dearest.
        self._plot.setXRange(-0.05 * dearest, 1.35 * dearest, padding=0)
        self._plot.setYRange(low - margin, high + margin, padding=0)
