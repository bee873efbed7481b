"""When charts are painted: one timer for all of them."""

import time
from typing import Protocol

from qtpy.QtCore import QObject, QTimer, Signal

# Half of a frame at 60 Hz: the other half is left for clicks.
_TICK_S = 0.008


class Drawn(Protocol):
    """What the clock needs to know about a chart."""

    @property
    def is_fresh(self) -> bool: ...

    def isVisible(self) -> bool: ...  # noqa: N802

    def draw(self) -> None: ...


class ChartClock(QObject):
    """One timer for every chart: data may come when it likes, painting happens at its pace.

    Signals:
        crosshair: The step under the mouse in any chart, NaN when it left.
    """

    crosshair = Signal(float)

    def __init__(self, hertz: int, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._dirty: set[Drawn] = set()
        self._stopped = False
        self._pace_ms = max(16, 1000 // hertz)
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._tick)

    def ask(self, chart: Drawn) -> None:
        """Repaint a chart at the next tick at which it can be seen."""
        if self._stopped:
            return
        self._dirty.add(chart)
        if not self._timer.isActive():
            # The first picture comes at once, those after it at their pace.
            self._timer.start(0)

    def forget(self, chart: Drawn) -> None:
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
