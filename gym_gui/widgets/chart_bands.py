"""The seeds of each configuration as one line with a band, and what the band is."""

import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyqtgraph as pg
from pyqtgraph.functions import arrayToQPolygonF
from qtpy.QtGui import QColor
from qtpy.QtWidgets import QGraphicsPolygonItem

from mosaic.statistics.curves import BOOTSTRAP, DEVIATION, IQM, MEAN, MIDDLES, SPREADS, Band
from mosaic.statistics.intervals import FEWEST_SEEDS

# A lower edge at or below zero has no logarithm; it is drawn far below the picture.
_LOWEST_POSITIVE = 1e-12


@dataclass(frozen=True)
class BandKind:
    """What is drawn over the seeds of a configuration; `short` is its name in a list."""

    middle: str
    spread: str
    short: str

    @property
    def title(self) -> str:
        """What a legend says: the middle, and the kind of interval around it."""
        return f"{MIDDLES[self.middle]}, {SPREADS[self.spread]}"


KINDS = (
    BandKind(MEAN, BOOTSTRAP, "Mean, 95 % CI"),
    BandKind(IQM, BOOTSTRAP, "IQM, 95 % CI"),
    BandKind(MEAN, DEVIATION, "Mean ± SD"),
)


@dataclass(frozen=True)
class GroupBand:
    """The band of one configuration."""

    name: str
    band: Band
    colour: str

    @property
    def label(self) -> str:
        """Its name with its number of seeds."""
        return f"{self.name} ({self.band.seeds} seeds)"


def legend(kind: BandKind, seeds: dict[str, tuple[int, str]]) -> str:
    """What the bands show, as rich text: the kind, then each configuration in its colour.

    Args:
        kind: What is drawn.
        seeds: The number of seeds and the colour of each configuration, by name.
    """
    parts = [f"<b>{kind.title}</b>"]
    for name, (count, colour) in seeds.items():
        few = f", fewer than {FEWEST_SEEDS}: this shows nothing" if count < FEWEST_SEEDS else ""
        words = "seed" if count == 1 else "seeds"
        text = html.escape(f"{name} ({count} {words}{few})")
        parts.append(f"<span style='color:{colour}'>■</span> {text}")
    return " &nbsp; ".join(parts)


class BandItems:
    """Draws the bands of a chart."""

    def __init__(self, plot: pg.PlotWidget) -> None:
        self._plot = plot
        self._items: list[QGraphicsPolygonItem | pg.PlotDataItem] = []
        self.shown: tuple[GroupBand, ...] = ()

    def show(self, bands: Sequence[GroupBand], log_y: bool) -> None:
        """Draw these and no others."""
        self.clear()
        self.shown = tuple(bands)
        for one in bands:
            self._draw(one, log_y)

    def clear(self) -> None:
        """Draw none."""
        for item in self._items:
            self._plot.removeItem(item)
        self._items, self.shown = [], ()

    def _draw(self, one: GroupBand, log_y: bool) -> None:
        low, high = one.band.low, one.band.high
        if log_y:
            low, high = (np.log10(np.maximum(edge, _LOWEST_POSITIVE)) for edge in (low, high))
        x = one.band.x
        edge = np.concatenate([np.stack([x, high], 1), np.stack([x, low], 1)[::-1]])
        faint = QColor(one.colour)
        faint.setAlpha(60)
        area = QGraphicsPolygonItem(arrayToQPolygonF(edge[:, 0], edge[:, 1]))
        area.setBrush(faint)
        area.setPen(pg.mkPen(None))
        area.setZValue(-5)
        pen = pg.mkPen(one.colour, width=2.6)
        line = pg.PlotDataItem(x, one.band.middle, pen=pen, antialias=True)
        line.setLogMode(False, log_y)
        for item in (area, line):
            self._items.append(item)
            self._plot.addItem(item)
