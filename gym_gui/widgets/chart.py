"""One chart: several curves, smoothing, a band, a crosshair shared with its neighbours."""

import math
from collections.abc import Mapping

import numpy as np
import pyqtgraph as pg
from pyqtgraph.GraphicsScene.mouseEvents import MouseClickEvent
from qtpy.QtCore import QEvent, QPointF, Signal
from qtpy.QtGui import QColor, QResizeEvent, QShowEvent
from qtpy.QtWidgets import QToolButton, QVBoxLayout, QWidget

from gym_gui.models.series import Floats, drawn_value, parted, smooth_pieces
from gym_gui.resources.theming import ThemeManager
from gym_gui.widgets.axis import ReadableAxis
from gym_gui.widgets.chart_bands import BandItems, GroupBand
from gym_gui.widgets.chart_clock import ChartClock
from gym_gui.widgets.chart_ends import EndItems
from gym_gui.widgets.chart_lines import Line, Look
from gym_gui.widgets.chart_marks import Mark, MarkItems
from mosaic.curves.thinning import thin
from mosaic.presenting import formatting
from mosaic.statistics.curves import Curve, band

# About one for each pixel across a wide screen.
_DRAWN_POINTS = 2000
# Making a curve's item takes a millisecond or two, and a turn of the event loop stays short.
_NEW_A_TURN = 16
_SOFT_POINTS = 500
# Pale curves behind more than these make a chart unreadable.
_MOST_WITH_RAW = 4
# How clear single seeds are behind the middle of their group.
_BEHIND = 0.25
_MOST_PHASES = 8
# A curve whose values differ by less than this share of themselves is drawn as flat, with so much
# of its value as height around it.
_FLAT, _FLAT_HEIGHT = 1e-6, 0.1
# More lines of text would cover the curves.
_MOST_READ = 6


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
        self._asked: set[str] = set()
        self._solo = ""
        self._items: dict[str, pg.PlotDataItem] = {}
        self._raw: dict[str, pg.PlotDataItem] = {}
        self._crosshair = math.nan
        self._least_height: float | None = None
        self._axes = {name: ReadableAxis(name) for name in ("left", "bottom")}
        self.plot = pg.PlotWidget(enableMenu=False, axisItems=self._axes)
        self.plot.hideButtons()
        self.plot.setAccessibleName(title or "chart")
        self.bands = BandItems(self.plot)
        self.marks = MarkItems(self.plot)
        self.phases = MarkItems(self.plot)
        self.ends = EndItems(self.plot)
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
        self.only = QToolButton(self)
        self.only.setToolTip("Show all curves again")
        self.only.clicked.connect(lambda: self.show_only(""))
        self.only.hide()
        self.plot.scene().sigMouseMoved.connect(self._on_mouse)
        self.plot.scene().sigMouseClicked.connect(self._on_click)
        self.plot.getViewBox().sigXRangeChanged.connect(lambda *_: self._on_range())
        clock.crosshair.connect(self._on_crosshair)
        themes.changed.connect(self.restyle)
        self.restyle()

    def set_lines(self, lines: Mapping[str, Line], look: Look) -> None:
        """Show these curves, by run id."""
        # A curve that was shown alone ends with the selection: another run would look empty.
        if set(lines) != self._asked:
            self.show_only("")
            self._hide_crosshair()
        self._asked = set(lines)
        self._lines = {key: line for key, line in lines.items() if line.has_place(look)}
        self._look = look
        self._clock.ask(self)

    @property
    def lines(self) -> Mapping[str, Line]:
        """The curves, by run id."""
        return self._lines

    def refresh(self) -> None:
        """The curves have grown."""
        self._clock.ask(self)

    @property
    def is_fresh(self) -> bool:
        """Whether it has curves to show that it never drew."""
        return not self._lines.keys() <= self._items.keys()

    def points_shown(self) -> int:
        """How many points are drawn now."""
        return sum(len(x) for x, _ in self.curves_shown().values())

    def curves_shown(self) -> dict[str, Curve]:
        """The points of each curve as they are drawn now, by run id."""
        return {
            key: (item.xData, item.yData) for key, item in self._items.items() if _has_data(item)
        }

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
        self._axes["bottom"].setLabel(self._axis_name)
        for key in set(self._items) - set(self._lines):
            self.plot.removeItem(self._items.pop(key))
        made = len(self._items)
        for key, line in self._lines.items():
            if key not in self._items and len(self._items) - made == _NEW_A_TURN:
                # A run of many seeds has as many curves: the others come with the next tick.
                self._clock.ask(self)
                return
            smoothing = 0.0 if line.dots else self._look.smoothing
            x, y = self._shape(line, smoothing)
            # Soft edges are for curves of few points: of many noisy ones they take too long.
            self._item(key, line).setData(x, y, antialias=len(x) <= _SOFT_POINTS)
            self._items[key].setVisible(self._solo in ("", key))
        self._give_flat_curves_height()
        self._draw_raw()
        self._draw_bands()
        self.ends.show(self._lines if self._look.bands is None else {}, self._look)
        # Marks are steps; over anything else they have no place.
        shown = {} if self._look.by_time or self._look.by_episodes else self._lines
        marks = dict.fromkeys(mark for line in shown.values() for mark in line.marks)
        self.marks.show(tuple(marks), self._themes.theme.tone("danger"))
        self.phases.show(_phases_in_sight(shown), self._themes.theme.muted)
        self._show_readout()

    def _give_flat_curves_height(self) -> None:
        """Around a constant the view would be so low that all numbers beside it look the same."""
        drawn = [y[np.isfinite(y)] for _, y in self.curves_shown().values()]
        ends = [(one.min(), one.max()) for one in drawn if len(one)]
        least = None
        if ends and not self._look.log_y:
            low, high = min(end[0] for end in ends), max(end[1] for end in ends)
            size = max(abs(low), abs(high))
            least = _FLAT_HEIGHT * size if high - low < _FLAT * size else None
        if least != self._least_height:
            self._least_height = least
            self.plot.getViewBox().setLimits(minYRange=least)

    def _draw_raw(self) -> None:
        """Behind a smoothed curve, a pale one of what was measured."""
        few = len(self._lines) <= _MOST_WITH_RAW and self._look.bands is None
        smoothed = {key: line for key, line in self._lines.items() if not line.dots}
        wanted = smoothed if few and self._look.smoothing > 0 else {}
        for key in set(self._raw) - set(wanted):
            self.plot.removeItem(self._raw.pop(key))
        for key, line in wanted.items():
            if key not in self._raw:
                self._raw[key] = self.plot.plot([], [], connect="finite")
                self._raw[key].setZValue(-1)
            colour = QColor(line.colour)
            colour.setAlpha(70)
            self._raw[key].setPen(pg.mkPen(colour, width=1))
            self._raw[key].setData(*self._shape(line, 0.0))
            self._raw[key].setVisible(self._solo in ("", key))

    @property
    def _axis_name(self) -> str:
        """What the curves are drawn over."""
        judged = bool(self._lines) and all(line.dots for line in self._lines.values())
        if judged or self._look.by_episodes:
            return "episodes"
        return "time" if self._look.by_time else self._over

    def _shape(self, line: Line, smoothing: float) -> Curve:
        x, starts = line.across(self._look), line.piece_starts()
        y = smooth_pieces(line.series.values, smoothing, starts)
        shown = self._in_sight(x)
        x, y = x[shown], y[shown]
        kept = thin(y, _DRAWN_POINTS)
        x, y = x[kept], y[kept]
        if starts:
            x, y = parted(x, y, kept + (shown.start or 0), starts)
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
        pen = None if line.dots else pg.mkPen(line.colour, width=2.4 if line.strong else 1.5)
        if key not in self._items:
            self._items[key] = self.plot.plot([], [], pen=pen, connect="finite")
            # Line by line: one smooth path of a noisy curve takes seconds to paint.
            self._items[key].curve.setSegmentedLineMode("on")
        self._items[key].setPen(pen)
        self._items[key].setSymbol("o" if line.dots else None)
        if line.dots:
            self._items[key].setSymbolSize(7)
            self._items[key].setSymbolPen(None)
            self._items[key].setSymbolBrush(QColor(line.colour))
        return self._items[key]

    def _draw_bands(self) -> None:
        """One middle and one band for each configuration, over its seeds."""
        kind = self._look.bands
        if kind is None:
            self.bands.clear()
            for item in self._items.values():
                item.setOpacity(1.0)
            return
        groups: dict[str, list[str]] = {}
        for key, line in self._lines.items():
            # What belongs to no configuration is alone, not with everything else that is.
            groups.setdefault(line.group or key, []).append(key)
        bands: list[GroupBand] = []
        for name, keys in groups.items():
            lines = [self._lines[key] for key in keys]
            # Of what was measured: smoothed curves are closer to each other than the seeds are.
            curves = [(line.across(self._look), line.series.values) for line in lines]
            found = band(curves, kind.middle, kind.spread) if len(keys) > 1 else None
            if found is not None:
                bands.append(GroupBand(name, found, lines[0].colour))
            for key in keys:
                self._items[key].setOpacity(1.0 if found is None else _BEHIND)
        self.bands.show(bands, self._look.log_y)

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

    def leaveEvent(self, event: QEvent | None) -> None:  # noqa: N802
        super().leaveEvent(event)
        self._clock.crosshair.emit(math.nan)

    def _on_crosshair(self, position: float) -> None:
        self._crosshair = position
        self._show_readout()

    def _hide_crosshair(self) -> None:
        self._crosshair = math.nan
        self._show_readout()

    def readout_shown(self) -> str:
        """The text beside the crosshair; empty when there is none."""
        return self._readout.toPlainText() if self._readout.isVisible() else ""

    def _show_readout(self) -> None:
        """Say what is on the screen under the mouse, and nothing else."""
        at = self._crosshair
        values = [] if math.isnan(at) or not self.isVisible() else self._values_at(at)
        self._cross.setVisible(bool(values))
        self._readout.setVisible(bool(values))
        if not values:
            return
        self._cross.setPos(at)
        counted = f"{self._axis_name[:-1]} {at:,.0f}"
        where = formatting.duration(at) if self._look.by_time else counted
        texts = [f"{formatting.number(value)}  {name}" for name, value in values[:_MOST_READ]]
        more = len(values) - _MOST_READ
        self._readout.setText(
            "\n".join([where, *texts, *([f"and {more} more"] if more > 0 else [])])
        )

    def _values_at(self, at: float) -> list[tuple[str, float]]:
        """The name and value of everything that is drawn there."""
        found: list[tuple[str, float]] = []
        for one in self.bands.shown:
            value = drawn_value(one.band.x, one.band.middle, at)
            if value is not None:
                found.append((one.label, value))
        banded = {one.name for one in self.bands.shown}
        for key, (x, y) in self.curves_shown().items():
            line = self._lines.get(key)
            if line is None or line.group in banded or not self._items[key].isVisible():
                continue
            value = drawn_value(x, y, at)
            if value is not None:
                found.append((line.name, value))
        return found

    def _on_click(self, event: MouseClickEvent) -> None:
        if not event.double():
            return
        point = self.plot.getViewBox().mapSceneToView(event.scenePos())
        self.show_only("" if self._solo else self._nearest_line(point))

    def show_only(self, key: str) -> None:
        """Show one curve alone, or all of them again."""
        if key == self._solo:
            return
        self._solo = key
        line = self._lines.get(key)
        self.only.setVisible(line is not None)
        if line is not None:
            self.only.setText(f"only {line.name} ×")
            self._place_chip()
        self.soloed.emit(key)
        self._clock.ask(self)

    def resizeEvent(self, event: QResizeEvent | None) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._place_chip()

    def _place_chip(self) -> None:
        width = min(self.only.sizeHint().width(), max(60, self.width() - 70))
        self.only.setGeometry(self.width() - width - 6, 4, width, self.only.sizeHint().height())

    def _nearest_line(self, point: QPointF) -> str:
        height = math.log10 if self._look.log_y else float
        distances = {}
        for key, (x, y) in self.curves_shown().items():
            value = drawn_value(x, y, point.x())
            if value is not None and (not self._look.log_y or value > 0):
                distances[key] = abs(height(value) - point.y())
        return min(distances, key=distances.__getitem__, default="")


def _phases_in_sight(lines: Mapping[str, Line]) -> tuple[Mark, ...]:
    """Where the phases of all curves began, as far as there is something to see of them."""
    found = dict.fromkeys(mark for line in lines.values() for mark in line.phases)
    starts = [line.series.steps[0] for line in lines.values() if len(line.series)]
    # Runs that changed at different steps would fill the chart with lines.
    if not starts or len(found) > _MOST_PHASES:
        return ()
    # The first number comes after the first step; a mark before it would be out of the picture.
    return tuple((max(at, float(min(starts))), text) for at, text in found)


def _has_data(item: pg.PlotDataItem) -> bool:
    return item.getData()[0] is not None
