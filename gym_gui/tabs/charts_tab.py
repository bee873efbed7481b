"""Every curve of one run."""

from dataclasses import replace

from qtpy.QtWidgets import QCheckBox

from gym_gui.background.joined_feeds import JoinedFeeds
from gym_gui.models.health import marks
from gym_gui.models.series import by_chart
from gym_gui.services import Services
from gym_gui.tabs.base import RunTab
from gym_gui.widgets.chart_grid import ChartGrid
from gym_gui.widgets.chart_lines import drawn_line, member_colours, member_key, member_line
from gym_gui.widgets.layouts import column
from mosaic.curves.names import is_end
from mosaic.presenting.run_status import title_of


class ChartsTab(RunTab):
    """Native charts from the run's own metrics."""

    title = "Charts"
    icon = "chart"

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._feeds = JoinedFeeds(services.feeds, services.store)
        self.whole = QCheckBox("From the beginning")
        self.whole.setToolTip("Begin with the curves of the run that this one continues")
        self.whole.setChecked(True)
        self.whole.toggled.connect(lambda _on: self._show())
        self.grid = ChartGrid(
            services.themes, services.clock, services.settings.smoothing, self.whole
        )
        self.grid.band.hide()
        self.setLayout(column(self.grid, margin=10))
        services.feeds.grown.connect(self._on_grown)
        services.phases.known.connect(lambda run_id: self._on_grown(run_id, set()))

    def on_open(self) -> None:
        self._feeds.take(self.run_id)
        self._show()

    def on_close(self) -> None:
        self._feeds.give_back(self.run_id)

    # Curves of the run before must not be taken for those of this one, even for a moment.
    def on_other_run(self) -> None:
        self.grid.show_curves({})

    def _on_grown(self, run_id: str, _tags: set[str]) -> None:
        if self.active and self._feeds.shows(self.run_id, run_id):
            self._show()

    def _show(self) -> None:
        if self.run is None:
            return
        name = title_of(self.run)
        self.whole.setVisible(self._feeds.continues(self.run_id))
        curves = self._feeds.curves(self.run_id, whole=self.whole.isChecked())
        charts = by_chart({tag: one for tag, one in curves.items() if not is_end(tag, curves)})
        phases = self.services.phases.of(self.run_id)
        # Only seeds have something in common that a band could show.
        self.grid.band.setVisible(any(None not in members for members in charts.values()))
        colours = member_colours(charts.values(), self.services.themes.theme.series)
        self.grid.show_curves(
            {
                chart: {
                    member_key(self.run_id, member): drawn_line(
                        replace(
                            member_line(series, name, colours[member], member),
                            marks=() if chart.startswith("eval/") else marks(self.run),
                        ),
                        chart,
                        curves,
                        phases,
                    )
                    for member, series in members.items()
                }
                for chart, members in charts.items()
            }
        )
