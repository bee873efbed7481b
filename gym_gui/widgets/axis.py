"""An axis whose numbers are short enough to read: 20k, 1.5M, 3 min."""

from collections.abc import Sequence

import pyqtgraph as pg

from mosaic.presenting import formatting


class ReadableAxis(pg.AxisItem):
    """Numbers with units, or durations."""

    def __init__(self, orientation: str) -> None:
        super().__init__(orientation)
        self.enableAutoSIPrefix(False)
        self._durations = False

    def show_durations(self, on: bool) -> None:
        """The numbers are seconds, or just numbers."""
        if on != self._durations:
            self._durations = on
            self.picture = None
            self.update()

    def tickStrings(  # noqa: N802
        self, values: Sequence[float], scale: float, spacing: float
    ) -> list[str]:
        if self.logMode:
            return list(super().tickStrings(values, scale, spacing))
        if self._durations:
            return [formatting.duration(value * scale) for value in values]
        return [formatting.tick(value * scale, spacing * scale) for value in values]
