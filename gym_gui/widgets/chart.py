"""One chart: several curves, smoothing, a band, a crosshair shared with its neighbours."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyqtgraph as pg
from pyqtgraph.functions import arrayToQPolygonF
from pyqtgraph.GraphicsScene.mouseEvents import MouseClickEvent
from qtpy.QtCore import QObject, QPointF, QTimer, Signal
from qtpy.QtGui import QColor, QShowEvent
from qtpy.QtWidgets import QGraphicsPolygonItem, QVBoxLayout, QWidget

from gym_gui.models import formatting
from gym_gui.models.series import Floats, Series, band, nearest_value, smooth
from gym_gui.resources.theming import ThemeManager
from gym_gui.widgets.axis import ReadableAxis
from mosaic.curves.thinning import thin

Curve = tuple[Floats, Floats]
# About one for each pixel across a wide screen.
_DRAWN_POINTS = 2000
_SOFT_POINTS = 500
# Pale curves behind more than these make a chart unreadable.
_MOST_WITH_RAW = 4
# Half of a frame at 60 Hz: the other half is left for clicks.
_TICK_S = 0.008


@dataclass(frozen=True)
class Look:
    """How all charts of a panel are drawn."""

    smoothing: float = 0.6
    log_y: bool = False
    by_time: bool = False
    show_band: bool = False


@dataclass(frozen=True)
class Line:
    """One curve of a chart."""

    series: Series
    name: str
    colour: str
    strong: bool = False


class ChartClock(QObject):
    """One timer for every chart: data may come when it likes, painting happens at its pace.

    Signals:
        crosshair: The step under the mouse in any chart, NaN when it left.
    """

    crosshair = Signal(float)

    def __init__(self, hertz: int, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._dirty: set[Chart] = set()
        self._stopped = False
        self._pace_ms = max(16, 1000 // hertz)
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._tick)

    def ask(self, chart: "Chart") -> None:
        """Repaint a chart at the next tick at which it can be seen."""
        if self._stopped:
            return
        self._dirty.add(chart)
        if not self._timer.isActive():
            # The first picture comes at once, those after it at their pace.
            self._timer.start(0)

    def forget(self, chart: "Chart") -> None:
        """A chart is going away."""
        self._dirty.discard(chart)

    def stop(self) -> None:
        """Paint nothing more: the window closes."""
        self._stopped = True
        self._timer.stop()
        self._dirty.clear()

    def _tick(self) -> None:
        visible = [chart for chart in self._dirty if chart.isVisible()]
        if not visible:
            self._timer.stop()
            return
        # Charts that have shown nothing yet do not wait for the pace.
        hurried = sum(chart.is_fresh for chart in visible) > 1
        self._timer.setInterval(0 if hurried else self._pace_ms)
        visible.sort(key=lambda chart: not chart.is_fresh)
        # A few charts a tick at most: each turn of the event loop stays short.
        deadline = time.perf_counter() + _TICK_S
        for chart in visible:
            self._dirty.discard(chart)
            chart.draw()
            if time.perf_counter() > deadline:
                break


class Chart(QWidget):
    """Curves over steps or time.

    Signals:
        soloed: A curve was double-clicked.
    """

    soloed = Signal(str)

    def __init__(
        self, themes: ThemeManager, clock: ChartClock, title: str = "", over: str = "steps"
    ) -> None:
        super().__init__()
        self._themes = themes
        self._clock = clock
        self.title = title
        self._over = over
        self._look = Look()
        self._lines: dict[str, Line] = {}
        self._solo = ""
        self._items: dict[str, pg.PlotDataItem] = {}
        self._raw: dict[str, pg.PlotDataItem] = {}
        self._band: tuple[QGraphicsPolygonItem, pg.PlotDataItem] | tuple[()] = ()
        self._axes = {name: ReadableAxis(name) for name in ("left", "bottom")}
        self.plot = pg.PlotWidget(enableMenu=False, axisItems=self._axes)
        self.plot.hideButtons()
        self.plot.setAccessibleName(title or "chart")
        self._cross = pg.InfiniteLine(angle=90, movable=False)
        self._cross.hide()
        self.plot.addItem(self._cross, ignoreBounds=True)
        self._readout = pg.TextItem(anchor=(0, 0))
        self._readout.setParentItem(self.plot.getViewBox())
        self._readout.setPos(QPointF(6, 2))
        self._readout.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.plot)
        self.plot.scene().sigMouseMoved.connect(self._on_mouse)
        self.plot.scene().sigMouseClicked.connect(self._on_click)
        self.plot.getViewBox().sigXRangeChanged.connect(lambda *_: self._on_range())
        clock.crosshair.connect(self._on_crosshair)
        themes.changed.connect(self.restyle)
        self.restyle()

    def set_lines(self, lines: Mapping[str, Line], look: Look) -> None:
        """Show these curves, by run id."""
        self._lines, self._look = dict(lines), look
        self._clock.ask(self)

    def refresh(self) -> None:
        """The curves have grown."""
        self._clock.ask(self)

    @property
    def is_fresh(self) -> bool:
        """Whether it has curves to show and never drew any."""
        return bool(self._lines) and not self._items

    def points_shown(self) -> int:
        """How many points are drawn now."""
        return sum(len(x) for x, _ in self.curves_shown().values())

    def curves_shown(self) -> dict[str, Curve]:
        """The points of each curve as they are drawn now, by run id."""
        return {
            key: (item.xData, item.yData) for key, item in self._items.items() if _has_data(item)
        }

    def band_shown(self) -> tuple[Curve, Floats] | None:
        """The mean as it is drawn now and the upper edge around it; None without a band."""
        if not self._band:
            return None
        area, line = self._band
        edge = area.polygon()
        heights = [edge.at(place).y() for place in range(edge.count() // 2)]
        return (line.xData, line.yData), np.asarray(heights)

    @property
    def axes_shown(self) -> tuple[str, bool]:
        """What the curves are drawn over, and whether their values are on a log scale."""
        return self._axes["bottom"].labelText, bool(self._axes["left"].logMode)

    def reset_zoom(self) -> None:
        """Show everything."""
        self.plot.enableAutoRange()
        self._clock.ask(self)

    def showEvent(self, event: QShowEvent | None) -> None:  # noqa: N802
        super().showEvent(event)
        self._clock.ask(self)

    def close_chart(self) -> None:
        """Stop asking the clock for repaints."""
        self._clock.forget(self)

    # ------------------------------------------------------------ painting

    def draw(self) -> None:
        """Bring the picture up to date."""
        plot = self.plot.getPlotItem()
        plot.setLogMode(False, self._look.log_y)
        self._axes["bottom"].show_durations(self._look.by_time)
        self._axes["bottom"].setLabel("time" if self._look.by_time else self._over)
        for key in set(self._items) - set(self._lines):
            self.plot.removeItem(self._items.pop(key))
        curves = []
        for key, line in self._lines.items():
            x, y = self._shape(line.series, self._look.smoothing)
            if self._look.show_band:
                curves.append((x, y))
            # Soft edges are for curves of few points: of many noisy ones they take too long.
            self._item(key, line).setData(x, y, antialias=len(x) <= _SOFT_POINTS)
            self._items[key].setVisible(self._solo in ("", key))
        self._draw_raw()
        self._draw_band(band(curves) if self._look.show_band else None)

    def _draw_raw(self) -> None:
        """A smoothed curve stands before a pale one of what was measured."""
        few = len(self._lines) <= _MOST_WITH_RAW and not self._look.show_band
        wanted = self._lines if few and self._look.smoothing > 0 else {}
        for key in set(self._raw) - set(wanted):
            self.plot.removeItem(self._raw.pop(key))
        for key, line in wanted.items():
            if key not in self._raw:
                self._raw[key] = self.plot.plot([], [], connect="finite")
                self._raw[key].setZValue(-1)
            colour = QColor(line.colour)
            colour.setAlpha(70)
            self._raw[key].setPen(pg.mkPen(colour, width=1))
            self._raw[key].setData(*self._shape(line.series, 0.0))
            self._raw[key].setVisible(self._solo in ("", key))

    def _shape(self, series: Series, smoothing: float) -> Curve:
        x = series.steps
        if self._look.by_time and len(series):
            x = series.walls - series.walls[0]
        y = smooth(series.values, smoothing)
        shown = self._in_sight(x)
        x, y = x[shown], y[shown]
        kept = thin(y, _DRAWN_POINTS)
        x, y = x[kept], y[kept]
        if self._look.log_y:
            y = np.where(y > 0, y, np.nan)
        return x, y

    def _in_sight(self, x: Floats) -> slice:
        """The part of a curve that a zoomed chart shows, and as much again on both sides."""
        if self._shows_everything():
            return slice(None)
        left, right = self.plot.getViewBox().viewRange()[0]
        first, last = np.searchsorted(x, [left - (right - left), right + (right - left)])
        return slice(max(0, int(first) - 1), int(last) + 1)

    def _shows_everything(self) -> bool:
        return bool(self.plot.getViewBox().autoRangeEnabled()[0])

    def _on_range(self) -> None:
        # While everything is shown the range follows the curves, and must not redraw them.
        if not self._shows_everything():
            self._clock.ask(self)

    def _item(self, key: str, line: Line) -> pg.PlotDataItem:
        pen = pg.mkPen(line.colour, width=2.4 if line.strong else 1.5)
        if key not in self._items:
            self._items[key] = self.plot.plot([], [], pen=pen, connect="finite")
            # Line by line: one smooth path of a noisy curve takes seconds to paint.
            self._items[key].curve.setSegmentedLineMode("on")
        self._items[key].setPen(pen)
        return self._items[key]

    def _draw_band(self, shape: tuple[Floats, Floats, Floats] | None) -> None:
        for item in self._band:
            self.plot.removeItem(item)
        self._band = ()
        for item in self._items.values():
            item.setOpacity(1.0 if shape is None else 0.35)
        if shape is None:
            return
        x, mean, spread = shape
        upper, lower, middle = mean + spread, mean - spread, mean
        if self._look.log_y:
            upper, lower = (np.log10(np.maximum(edge, 1e-12)) for edge in (upper, lower))
        colour = self._themes.colour("accent")
        faint = QColor(colour)
        faint.setAlpha(60)
        edge = np.concatenate([np.stack([x, upper], 1), np.stack([x, lower], 1)[::-1]])
        area = QGraphicsPolygonItem(arrayToQPolygonF(edge[:, 0], edge[:, 1]))
        area.setBrush(faint)
        area.setPen(pg.mkPen(None))
        area.setZValue(-5)
        line = pg.PlotDataItem(x, middle, pen=pg.mkPen(colour, width=2.6), antialias=True)
        line.setLogMode(False, self._look.log_y)
        self._band = (area, line)
        for item in self._band:
            self.plot.addItem(item)

    def restyle(self) -> None:
        """Take the colours of the theme."""
        theme = self._themes.theme
        self.plot.setBackground(theme.surface)
        for name in ("left", "bottom"):
            axis = self.plot.getAxis(name)
            axis.setPen(theme.border)
            axis.setTextPen(theme.muted)
        self._axes["left"].setWidth(52)
        self._axes["bottom"].setHeight(36)
        self.plot.showGrid(x=True, y=True, alpha=0.14)
        self._cross.setPen(pg.mkPen(theme.muted, width=1))
        self._readout.setColor(theme.text)
        self._readout.fill = pg.mkBrush(theme.raised)
        self._clock.ask(self)

    # ------------------------------------------------------------ the mouse

    def _on_mouse(self, position: QPointF) -> None:
        if not self.plot.sceneBoundingRect().contains(position):
            self._clock.crosshair.emit(math.nan)
            return
        self._clock.crosshair.emit(self.plot.getViewBox().mapSceneToView(position).x())

    def _on_crosshair(self, step: float) -> None:
        shown = not math.isnan(step) and bool(self._lines) and self.isVisible()
        self._cross.setVisible(shown)
        self._readout.setVisible(shown)
        if not shown:
            return
        self._cross.setPos(step)
        if self._look.by_time:
            self._readout.setText(formatting.duration(step))
            return
        texts = [f"step {step:,.0f}"]
        for line in list(self._lines.values())[:6]:
            value = nearest_value(line.series, step)
            texts.append(f"{formatting.number(value)}  {line.name}")
        self._readout.setText("\n".join(texts))

    def _on_click(self, event: MouseClickEvent) -> None:
        if not event.double():
            return
        point = self.plot.getViewBox().mapSceneToView(event.scenePos())
        self._solo = "" if self._solo else self._nearest_line(point)
        self.soloed.emit(self._solo)
        self._clock.ask(self)

    def _nearest_line(self, point: QPointF) -> str:
        distances = {}
        for key, line in self._lines.items():
            value = nearest_value(line.series, point.x())
            if value is not None:
                distances[key] = abs(value - point.y())
        return min(distances, key=distances.__getitem__, default="")


def _has_data(item: pg.PlotDataItem) -> bool:
    return item.getData()[0] is not None
