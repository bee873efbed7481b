"""Every curve of one run."""

from dataclasses import replace

from gym_gui.models.health import marks
from gym_gui.models.series import by_chart
from gym_gui.services import Services
from gym_gui.tabs.base import RunTab
from gym_gui.widgets.chart import seed_key, seed_line
from gym_gui.widgets.chart_grid import ChartGrid
from gym_gui.widgets.layouts import column
from mosaic.presenting.run_status import title_of


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
        charts = by_chart(curves)
        # Only seeds have something in common that a band could show.
        self.grid.band.setVisible(any(None not in seeds for seeds in charts.values()))
        self.grid.show_curves(
            {
                chart: {
                    seed_key(self.run_id, seed): replace(
                        seed_line(series, name, colour, seed),
                        dots=chart.startswith("eval/"),
                        marks=() if chart.startswith("eval/") else marks(self.run),
                    )
                    for seed, series in seeds.items()
                }
                for chart, seeds in charts.items()
            }
        )
