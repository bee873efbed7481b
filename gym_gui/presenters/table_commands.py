"""Looking at runs: comparing them, opening their tabs, and shaping the run table."""

from collections.abc import Callable

from gym_gui.actions import rules
from gym_gui.actions.action import Action
from gym_gui.models.palette_items import PaletteItem
from gym_gui.panels.compare_panel import ComparePanel
from gym_gui.panels.dialogs import Dialogs
from gym_gui.panels.run_panel import RunPanel
from gym_gui.panels.runs_panel import RunsPanel
from gym_gui.presenters.tab_registry import LOGS, TENSORBOARD
from gym_gui.services import Services
from gym_gui.widgets.command_palette import CommandPalette
from gym_gui.widgets.controls import ask_name
from mosaic.presenting import run_status


class TableCommands:
    """Everything in the Analyse menu."""

    def __init__(
        self,
        services: Services,
        table: RunsPanel,
        run_panel: RunPanel,
        compare: ComparePanel,
        dialogs: Dialogs,
        palette: CommandPalette,
        show_layout: Callable[[str], None],
    ) -> None:
        self._services = services
        self._table = table
        self._views = table.views
        self._run_panel = run_panel
        self._compare = compare
        self._dialogs = dialogs
        self._palette = palette
        self._show_layout = show_layout

    def actions(self) -> tuple[Action, ...]:
        """Comparing, tabs, then the table itself."""
        return (*self._looking(), *self._shaping())

    def _looking(self) -> tuple[Action, ...]:
        real = rules.one_run(run_status.is_real)
        return (
            Action(
                id="analyse.compare",
                title="Compare selected runs",
                do=self.compare,
                menu="Analyse",
                shortcut="Ctrl+M",
                icon="compare",
                enabled=rules.has_selection,
            ),
            Action(
                id="analyse.diff",
                title="Compare configs",
                do=self._diff,
                menu="Analyse",
                shortcut="Ctrl+Shift+M",
                icon="clone",
                enabled=rules.several,
            ),
            Action(
                id="analyse.results",
                title="Results with intervals",
                do=self._results,
                menu="Analyse",
                shortcut="Ctrl+I",
                icon="chart",
                enabled=rules.has_selection,
            ),
            Action(
                id="analyse.study",
                title="Study of the sweep",
                do=self._study,
                menu="Analyse",
                shortcut="Ctrl+Alt+S",
                icon="search",
                enabled=rules.has_selection,
            ),
            Action(
                id="analyse.band",
                title="Draw seeds in the next way",
                do=self._next_band,
                menu="Analyse",
                shortcut="Ctrl+Alt+B",
                icon="chart",
                enabled=rules.has_selection,
            ),
            Action(
                id="analyse.logs",
                title="Logs of the run",
                do=lambda: self._open_tab(LOGS),
                menu="Analyse",
                shortcut="Ctrl+L",
                icon="log",
                enabled=real,
            ),
            Action(
                id="analyse.tensorboard",
                title="TensorBoard of the run",
                do=lambda: self._open_tab(TENSORBOARD),
                menu="Analyse",
                shortcut="Ctrl+T",
                icon="chart",
                enabled=real,
            ),
        )

    def _shaping(self) -> tuple[Action, ...]:
        return (
            Action(
                id="runs.filter",
                title="Filter runs",
                do=self._table.focus_filter,
                menu="Analyse",
                shortcut="Ctrl+F",
                icon="search",
                separated=True,
            ),
            Action(
                id="runs.group",
                title="Group by seed",
                do=self._table.toggle_grouping,
                menu="Analyse",
                shortcut="Ctrl+G",
                icon="layout",
                checkable=True,
            ),
            Action(
                id="runs.experiments",
                title="Group by experiment",
                do=self._table.toggle_experiments,
                menu="Analyse",
                shortcut="Ctrl+Alt+G",
                icon="layout",
                checkable=True,
            ),
            Action(
                id="runs.columns",
                title="Choose columns …",
                do=lambda: self._dialogs.choose_columns(self._table.table),
                menu="Analyse",
                shortcut="Ctrl+Shift+K",
                icon="layout",
            ),
            Action(
                id="runs.views",
                title="Saved views …",
                do=self.choose_view,
                menu="Analyse",
                shortcut="Ctrl+Shift+V",
                icon="eye",
            ),
            Action(
                id="runs.save_view",
                title="Save this view …",
                do=self._save_view,
                menu="Analyse",
                shortcut="Ctrl+Shift+S",
                icon="save",
            ),
            Action(
                id="runs.delete_view",
                title="Delete the view in use",
                do=lambda: self._views.delete(self._views.current),
                menu="Analyse",
                icon="trash",
                enabled=rules.has_view,
            ),
            Action(
                id="runs.export_csv",
                title="Export the table as CSV …",
                do=lambda: self._dialogs.export_table(self._table.csv_text),
                menu="Analyse",
                shortcut="Ctrl+Shift+E",
                icon="save",
            ),
        )

    def compare(self) -> None:
        """Show the selected runs side by side."""
        self._show_layout("analyse")
        self._compare.show_runs(self._services.selection.ids)

    def _diff(self) -> None:
        self.compare()
        self._compare.show_diff()

    def _study(self) -> None:
        self.compare()
        self._compare.show_study()

    def _results(self) -> None:
        self.compare()
        self._compare.show_results()

    def _next_band(self) -> None:
        self.compare()
        band = self._compare.grid.band
        band.setCurrentIndex((band.currentIndex() + 1) % band.count())

    def _open_tab(self, name: str) -> None:
        if not self._run_panel.isVisible():
            self._show_layout("watch")
        self._run_panel.open_tab(name)

    def choose_view(self) -> None:
        """Offer every saved view of the run table."""
        items = [PaletteItem("", "Default view", "all default columns", "layout")]
        for name, look in sorted(self._views.views.items()):
            hint = look.filter or f"{len(look.columns)} columns"
            items.append(PaletteItem(name, name, hint, "layout"))
        self._palette.ask("Show the runs in a saved view", items, (), self._views.use)

    def _save_view(self) -> None:
        ask_name(
            self._table,
            "Save this view",
            "Save filter, order, grouping and columns as:",
            self._views.current,
            lambda name: self._views.save(name, self._table.look()),
        )
