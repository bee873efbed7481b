"""How well a run's policies did on held-out seeds: a point and its interval for each of them."""

from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QWidget

from gym_gui.models.episodes import Judged, Scores, best_of
from gym_gui.models.series import Floats
from gym_gui.resources.theming import ThemeManager
from gym_gui.widgets.axis import ReadableAxis
from gym_gui.widgets.layouts import column

_POINT, _CHOSEN, _BEST = 9, 15, 17


class EvaluationChart(QWidget):
    """The evaluation curve; a click on a point chooses it.

    Signals:
        chosen: The place of an evaluation that was clicked.
    """

    chosen = Signal(int)

    def __init__(self, themes: ThemeManager) -> None:
        super().__init__()
        self._themes = themes
        self._evaluations: Sequence[Judged] = ()
        self._place = -1
        axes = {name: ReadableAxis(name) for name in ("left", "bottom")}
        self.plot = pg.PlotWidget(enableMenu=False, axisItems=axes)
        self.plot.hideButtons()
        self.plot.setAccessibleName("Return on held-out seeds over training")
        axes["bottom"].setLabel("steps")
        axes["left"].setWidth(52)
        self.points: pg.ScatterPlotItem | None = None
        self.setFixedHeight(190)
        self.setLayout(column(self.plot))
        themes.changed.connect(self._draw)

    def show_evaluations(self, evaluations: Sequence[Judged], place: int) -> None:
        """Draw these, with one of them chosen."""
        self._evaluations, self._place = evaluations, place
        self._draw()

    def _draw(self) -> None:
        theme = self._themes.theme
        self.plot.clear()
        self.plot.setBackground(theme.surface)
        for name in ("left", "bottom"):
            self.plot.getAxis(name).setPen(theme.border)
            self.plot.getAxis(name).setTextPen(theme.muted)
        self.plot.showGrid(x=True, y=True, alpha=0.14)
        known = [one for one in self._evaluations if one.step is not None]
        if not known:
            return
        steps = np.array([one.step for one in known], float)
        sampled = [one.sampled for one in known]
        if all(one is not None for one in sampled):
            self._curve(steps, [one for one in sampled if one is not None], theme.series[1], 1.0)
        self._curve(steps, [one.sure for one in known], theme.series[0], 2.2)
        best = best_of(known)
        # Shape as well as size: the best is found without colours too.
        self.points = pg.ScatterPlotItem(
            steps,
            [one.sure.mean for one in known],
            symbol=["star" if one.step == best else "o" for one in known],
            size=[self._size(place, one, best) for place, one in enumerate(known)],
            brush=theme.series[0],
            pen=pg.mkPen(theme.text, width=1),
            hoverable=True,
            tip=None,
        )
        self.points.sigClicked.connect(self._on_click)
        self.plot.addItem(self.points)

    def _size(self, place: int, one: Judged, best: int | None) -> int:
        if one.step == best:
            return _BEST
        return _CHOSEN if place == self._place else _POINT

    def _curve(self, steps: Floats, scores: Sequence[Scores], colour: str, width: float) -> None:
        pen = pg.mkPen(colour, width=width)
        means = np.array([one.mean for one in scores])
        self.plot.addItem(pg.PlotDataItem(steps, means, pen=pen))
        if any(one.low is None for one in scores):
            return
        low = np.array([one.low for one in scores], float)
        high = np.array([one.high for one in scores], float)
        bars = pg.ErrorBarItem(
            x=steps, y=means, top=high - means, bottom=means - low, beam=0, pen=pen
        )
        self.plot.addItem(bars)

    def _on_click(self, _item: object, points: Sequence[pg.SpotItem], *_event: object) -> None:
        if len(points):
            self.chosen.emit(int(points[0].index()))
