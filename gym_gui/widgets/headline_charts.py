"""The two curves to keep an eye on while an agent is watched: its return and its speed."""

from collections.abc import Mapping

from qtpy.QtWidgets import QWidget

from gym_gui.models.series import Series
from gym_gui.resources.theming import ThemeManager
from gym_gui.widgets.chart import Chart
from gym_gui.widgets.chart_clock import ChartClock
from gym_gui.widgets.chart_lines import Line, Look
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import column, framed
from mosaic.curves import names

_WANTED = {"Return": names.RETURN, "Steps per second": names.SPEED}


class HeadlineCharts(QWidget):
    """Hidden until the run has one of the curves."""

    def __init__(self, themes: ThemeManager, clock: ChartClock) -> None:
        super().__init__()
        self._themes = themes
        self.charts = {name: Chart(themes, clock, name) for name in _WANTED}
        self._cards = {
            name: framed(column(label(name, "section"), chart, margin=8, spacing=4))
            for name, chart in self.charts.items()
        }
        self.setLayout(column(*self._cards.values()))
        self.setMinimumWidth(230)
        self.hide()

    def show_curves(self, curves: Mapping[str, Series], smoothing: float) -> None:
        """Show what there is of the curves, by tag."""
        for title, number in _WANTED.items():
            curve = names.headline(curves, number)
            lines = (
                {title: Line(curve, title, self._themes.theme.series[0])}
                if curve is not None
                else {}
            )
            self._cards[title].setVisible(bool(lines))
            self.charts[title].set_lines(lines, Look(smoothing))
        self.setVisible(any(not card.isHidden() for card in self._cards.values()))
