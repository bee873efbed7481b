"""Every curve of one run."""

from gym_gui.models.run_status import title_of
from gym_gui.services import Services
from gym_gui.tabs.base import RunTab
from gym_gui.widgets.chart import Line
from gym_gui.widgets.chart_grid import ChartGrid
from gym_gui.widgets.layouts import column


class ChartsTab(RunTab):
    """Native charts from the run's own metrics."""

    title = "Charts"
    icon = "chart"

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self.grid = ChartGrid(services.themes, services.clock, services.settings.smoothing)
        self.grid.band.hide()
        self.setLayout(column(self.grid, margin=10))
        services.feeds.grown.connect(self._on_grown)

    def on_open(self) -> None:
        self.services.feeds.take(self.run_id)
        self._show()

    def on_close(self) -> None:
        self.services.feeds.give_back(self.run_id)

    # Curves of the run before must not be taken for those of this one, even for a moment.
    def on_other_run(self) -> None:
        self.grid.show_curves({})

    def _on_grown(self, run_id: str, _tags: set[str]) -> None:
        if self.active and run_id == self.run_id:
            self._show()

    def _show(self) -> None:
        if self.run is None:
            return
        colour = self.services.themes.theme.series[0]
        name = title_of(self.run)
        curves = self.services.feeds.curves(self.run_id)
        self.grid.show_curves(
            {tag: {self.run_id: Line(series, name, colour)} for tag, series in curves.items()}
        )
