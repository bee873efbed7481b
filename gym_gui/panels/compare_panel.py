"""The analyse dock: curves of several runs over each other, and what set them apart."""

from collections.abc import Mapping, Sequence

from qtpy.QtCore import Qt, Signal
from qtpy.QtGui import QColor, QHideEvent, QIcon, QShowEvent
from qtpy.QtWidgets import (
    QCheckBox,
    QColorDialog,
    QComboBox,
    QListWidgetItem,
    QTabWidget,
    QWidget,
)

from gym_gui.background.joined_feeds import JoinedFeeds
from gym_gui.models.facets import facet_keys, facet_of, facet_tag
from gym_gui.models.series import by_chart
from gym_gui.panels.diff_page import DiffPage
from gym_gui.panels.results_page import ResultsPage
from gym_gui.panels.study_page import StudyPage
from gym_gui.resources import icons
from gym_gui.services import Services
from gym_gui.widgets.chart_grid import ChartGrid
from gym_gui.widgets.chart_lines import Line, drawn_line, member_key, member_line
from gym_gui.widgets.controls import button
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import as_panel, column
from gym_gui.widgets.legend_list import LegendList
from gym_gui.widgets.wrapping import FoldingSplitter
from mosaic.config.flat import judged_settings
from mosaic.curves.names import is_end
from mosaic.presenting.run_status import title_with_seed
from mosaic.records import RunRecord
from mosaic.statistics.grouping import Asked, group_names

Document = Mapping[str, object]
# More curves look alike, and each run is one more stream of the daemon.
_MOST = 24
_NO_FACETS = "One chart for all"
_ID_ROLE = Qt.ItemDataRole.UserRole


class ComparePanel(QWidget):
    """Follows the selection, or keeps a set of runs.

    Signals:
        action_wanted: The id of an action whose button was pressed here.
    """

    action_wanted = Signal(str)

    def __init__(self, services: Services) -> None:
        super().__init__()
        as_panel(self)
        self._services = services
        self._ids: tuple[str, ...] = ()
        self._all: tuple[str, ...] = ()
        self._colours: dict[str, str] = {}
        self._hidden: set[str] = set()
        self._baseline = ""
        self._following = False
        self._feeds = JoinedFeeds(services.feeds, services.store)
        self.facet = QComboBox()
        self.facet.setAccessibleName("A chart for each value of")
        self.facet.setToolTip("One chart for all runs, or one for each value of a setting")
        self.facet.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.facet.addItem(_NO_FACETS, "")
        self.facet.currentIndexChanged.connect(lambda _place: self._show())
        self.grid = ChartGrid(
            services.themes, services.clock, services.settings.smoothing, self.facet
        )
        self.grid.say_empty("No curves", "Select runs in the table; theirs are drawn together.")
        self.legend = LegendList()
        self.legend.setAccessibleName("Runs compared")
        self.legend.itemChanged.connect(self._on_item)
        self.legend.itemDoubleClicked.connect(self._recolour)
        self.legend.setToolTip("Untick to hide, double-click to change the colour")
        self.keep = QCheckBox("Pin these runs")
        self.keep.setToolTip("Do not follow the selection in the table")
        self.keep.toggled.connect(lambda on: None if on else self.show_runs(services.selection.ids))
        self._left = label("", "muted", wrap=True)
        self._left.hide()
        side = QWidget()
        only_differences = button("Config differences", self.show_diff)
        side.setLayout(
            column(
                label("Runs", "section"),
                self.legend,
                self._left,
                self.keep,
                only_differences,
                margin=8,
            )
        )
        split = FoldingSplitter()
        curves = QWidget()
        curves.setLayout(column(self.grid, margin=6))
        split.addWidget(curves)
        split.addWidget(side)
        split.setStretchFactor(0, 5)
        split.setStretchFactor(1, 1)
        split.setSizes([650, 265])
        self.diff_page = DiffPage(services)
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.results = ResultsPage(services)
        self.results.report.clicked.connect(lambda: self.action_wanted.emit("analyse.report"))
        self.tabs.addTab(split, "Curves")
        self.tabs.addTab(self.results, "Results")
        self.tabs.addTab(self.diff_page, "Configs")
        self.study = StudyPage(services)
        self.study.report.clicked.connect(lambda: self.action_wanted.emit("analyse.report"))
        self.tabs.addTab(self.study, "Study")
        self.tabs.currentChanged.connect(lambda _place: self._fill_pages())
        self.setLayout(column(self.tabs, margin=6))
        services.selection.changed.connect(self._on_selection)
        services.feeds.grown.connect(self._on_grown)
        services.phases.known.connect(lambda run_id: self._on_grown(run_id, set()))
        services.store.changed.connect(self._on_store)
        services.run_settings.arrived.connect(self._show)
        self.grid.band.currentIndexChanged.connect(lambda _place: self._show())

    def show_runs(self, ids: Sequence[str]) -> None:
        """Compare these runs."""
        wanted = tuple(ids[:_MOST])
        self._all = tuple(ids)
        self._left.setText(f"The curves of {len(wanted)} of {len(ids)} runs are drawn.")
        self._left.setVisible(len(wanted) < len(ids))
        if self._following:
            for run_id in set(wanted) - set(self._ids):
                self._feeds.take(run_id)
            for run_id in set(self._ids) - set(wanted):
                self._feeds.give_back(run_id)
        self._ids = wanted
        runs = [run for run in map(self._services.store.get, wanted) if run is not None]
        parents = (self._services.store.get(run.parent_run_id) for run in runs)
        self._services.run_settings.want([*runs, *(one for one in parents if one is not None)])
        self._fill_legend()
        self._show()
        self._fill_pages()

    def show_diff(self) -> None:
        """Show what sets the configs apart."""
        self.tabs.setCurrentWidget(self.diff_page)

    def show_results(self) -> None:
        """Show the configurations with intervals over their seeds."""
        self.tabs.setCurrentWidget(self.results)

    def show_study(self) -> None:
        """Show the study of the sweep that the selected runs belong to."""
        self.tabs.setCurrentWidget(self.study)

    def set_baseline(self, run_id: str) -> None:
        """Draw one run stronger than the others."""
        self._baseline = run_id
        self._show()

    def rest(self) -> None:
        """Stop following every curve."""
        if self._following:
            self._following = False
            for run_id in self._ids:
                self._feeds.give_back(run_id)

    def showEvent(self, event: QShowEvent | None) -> None:  # noqa: N802
        super().showEvent(event)
        if not self._following:
            self._following = True
            # As if nothing had been shown: `show_runs` then takes the feed of every run again.
            ids, self._ids = (self._all or self._services.selection.ids), ()
            self.show_runs(ids)

    def hideEvent(self, event: QHideEvent | None) -> None:  # noqa: N802
        super().hideEvent(event)
        self.rest()

    def _on_selection(self) -> None:
        if self.isVisible() and not self.keep.isChecked():
            self.show_runs(self._services.selection.ids)

    def _on_grown(self, run_id: str, _tags: set[str]) -> None:
        if self.isVisible() and any(self._feeds.shows(one, run_id) for one in self._ids):
            self._show()

    def _on_store(self, ids: set[str]) -> None:
        gone = [
            run_id for run_id in self._ids if run_id in ids and not self._services.store.get(run_id)
        ]
        if gone and self.isVisible():
            self.show_runs([run_id for run_id in self._all if run_id not in gone])

    def _show(self) -> None:
        if not self.isVisible():
            return
        lines: dict[str, dict[str, Line]] = {}
        asked = self._asked()
        self._offer_facets(asked)
        groups = group_names(asked, environments=True)
        colours = self._group_colours(groups) if self.grid.band.currentData() else {}
        for run_id, group in groups.items():
            run = self._services.store.get(run_id)
            if run is None or run_id in self._hidden:
                continue
            name = title_with_seed(run)
            colour = colours.get(group) or self._colour(run_id)
            strong = run_id == self._baseline
            facet = facet_of(asked[run_id], key) if (key := self.facet.currentData()) else ""
            phases = self._services.phases.of(run_id) if run.mode == "script" else ()
            curves = self._feeds.curves(run_id)
            charts = by_chart({tag: one for tag, one in curves.items() if not is_end(tag, curves)})
            swept = any(one and one.settings for members in charts.values() for one in members)
            for tag, members in charts.items():
                for member, series in members.items():
                    # A mean over several settings, such as a loss, is no seed of any of them.
                    own = "" if swept and member is None else group
                    line = member_line(series, name, colour, member, strong=strong, group=own)
                    chart = lines.setdefault(facet_tag(tag, facet), {})
                    chart[member_key(run_id, member)] = drawn_line(line, tag, curves, phases)
        self.grid.show_curves(lines)

    def _offer_facets(self, asked: Mapping[str, Asked]) -> None:
        """Offer the keys in which the runs differ; what was chosen stays while it makes sense."""
        keys = facet_keys(asked)
        if [self.facet.itemData(at) for at in range(1, self.facet.count())] == keys:
            return
        chosen = self.facet.currentData()
        self.facet.blockSignals(True)
        self.facet.clear()
        self.facet.addItem(_NO_FACETS, "")
        for key in keys:
            self.facet.addItem(f"A chart for each {key}", key)
        self.facet.setCurrentIndex(keys.index(chosen) + 1 if chosen in keys else 0)
        self.facet.blockSignals(False)

    def _asked(self) -> dict[str, Asked]:
        """What each run was asked to do."""
        asked: dict[str, Asked] = {}
        for run_id in self._ids:
            run = self._services.store.get(run_id)
            if run is not None:
                # Until its settings are read, nothing is known to be the same configuration.
                settings = self._settings(run) or {"run": run_id}
                asked[run_id] = Asked(run.algo or run.worker, run.env_id, settings)
        return asked

    def _settings(self, run: RunRecord) -> Mapping[str, object] | None:
        """What a run was asked for; an evaluation belongs to the training that it judges."""
        known = self._services.run_settings
        given, parent = known.given(run), self._services.store.get(run.parent_run_id)
        if run.mode != "policy_eval" or parent is None or given is None:
            return given
        trained = known.given(parent)
        return None if trained is None else judged_settings(trained, given, run.seed)

    def _group_colours(self, groups: Mapping[str, str]) -> dict[str, str]:
        series = self._services.themes.theme.series
        names = list(dict.fromkeys(groups.values()))
        return {name: series[place % len(series)] for place, name in enumerate(names)}

    def _colour(self, run_id: str) -> str:
        if run_id not in self._colours:
            series = self._services.themes.theme.series
            place = self._ids.index(run_id) if run_id in self._ids else 0
            return series[place % len(series)]
        return self._colours[run_id]

    def _fill_legend(self) -> None:
        # Filling the list would report every tick as one that a person made.
        self.legend.blockSignals(True)
        self.legend.clear()
        for run_id in self._ids:
            run = self._services.store.get(run_id)
            if run is None:
                continue
            item = QListWidgetItem(title_with_seed(run))
            item.setIcon(_swatch(self._colour(run_id)))
            item.setData(_ID_ROLE, run_id)
            item.setToolTip(f"{title_with_seed(run)}\n{run_id}")
            shown = Qt.CheckState.Unchecked if run_id in self._hidden else Qt.CheckState.Checked
            item.setCheckState(shown)
            self.legend.add_name(item)
        self.legend.fit()
        self.legend.blockSignals(False)

    def _on_item(self, item: QListWidgetItem) -> None:
        run_id = item.data(_ID_ROLE)
        if item.checkState() == Qt.CheckState.Checked:
            self._hidden.discard(run_id)
        else:
            self._hidden.add(run_id)
        self._show()

    def _recolour(self, item: QListWidgetItem) -> None:
        run_id = item.data(_ID_ROLE)
        dialog = QColorDialog(QColor(self._colour(run_id)), self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)

        def take(colour: QColor) -> None:
            self._colours[run_id] = colour.name()
            self._fill_legend()
            self._show()

        dialog.colorSelected.connect(take)
        dialog.open()

    def _fill_pages(self) -> None:
        """Fill the page in front; what is not looked at is not read."""
        if self.tabs.currentWidget() is self.diff_page:
            self.diff_page.show_runs(self._ids)
        elif self.tabs.currentWidget() is self.results:
            self.results.show_runs(self._all)
        elif self.tabs.currentWidget() is self.study:
            self.study.show_runs(self._all)


def _swatch(colour: str) -> QIcon:
    return icons.icon("stop", colour, colour)
