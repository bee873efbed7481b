"""The run table with its filter, its buttons and its menu."""

from collections.abc import Callable
from dataclasses import replace

from qtpy.QtCore import QItemSelectionModel, QPoint, Qt, QTimer
from qtpy.QtWidgets import QLineEdit, QMenu, QStackedWidget, QToolButton, QWidget

from gym_gui.actions.binding import ActionBinder
from gym_gui.background.daemon_link import LOST
from gym_gui.models.notices import Notice
from gym_gui.models.run_columns import DAEMON
from gym_gui.models.run_csv import table_csv
from gym_gui.models.run_order import Group, Row, summary
from gym_gui.models.run_table import RunTableModel
from gym_gui.models.table_look import TableLook
from gym_gui.panels.saved_views import SavedViews
from gym_gui.services import Services
from gym_gui.widgets.controls import restyle
from gym_gui.widgets.labels import label
from gym_gui.widgets.layouts import as_panel, column
from gym_gui.widgets.messages import EmptyState
from gym_gui.widgets.qt_types import sure
from gym_gui.widgets.run_table_view import RunTableView
from gym_gui.widgets.wrapping import WrappingRow
from mosaic.presenting.run_filter import FIELDS
from mosaic.presenting.run_status import is_real, title_of
from mosaic.records import RunRecord

_TOOLS = (
    "run.pause", "run.resume", "run.save_checkpoint", "run.cancel", "run.clone", "run.retry",
    "run.evaluate", "analyse.compare",
)  # fmt: skip
_MENU = (
    "run.pause", "run.resume", "run.save_checkpoint", "run.cancel", "", "run.clone",
    "run.retry", "run.continue", "run.evaluate", "", "analyse.compare", "analyse.diff",
    "analyse.logs", "analyse.tensorboard", "", "run.tags", "run.pin", "run.copy_id",
    "run.open_folder", "run.export", "run.bundle", "", "run.delete",
)  # fmt: skip
# About the time between two letters: the table is not arranged for half a word.
_FILTER_DELAY_MS = 120


class RunsPanel(QWidget):
    """Every run in one quick table."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        as_panel(self)
        self._services = services
        self._actions: ActionBinder | None = None
        self._wanted = ""
        self._choosing = False
        self.model = RunTableModel(services.store, services.run_settings, self)
        self.views = SavedViews(services)
        self.filter = QLineEdit()
        self.filter.setPlaceholderText("Filter:  algo:ppo  env:cart  state:running  return>100")
        self.filter.setClearButtonEnabled(True)
        self.filter.setAccessibleName("Filter runs")
        self.filter.setToolTip(
            "Words, or field:word and field>number. Fields: "
            + ", ".join(FIELDS)
            + ", and any setting or metric, such as learning_rate<0.001"
        )
        self._problem = label("", "error", wrap=True)
        self._problem.hide()
        self._count = label("", "muted")
        self.table = self._make_table()
        self._empty = EmptyState("No matching runs", "Clear the filter to see all runs.")
        self._stack = QStackedWidget()
        self._stack.addWidget(self.table)
        self._stack.addWidget(self._empty)
        self.setLayout(column(self._make_bar(), self._problem, self._stack, margin=8, spacing=6))
        self._delay = QTimer(self)
        self._delay.setSingleShot(True)
        self._delay.setInterval(_FILTER_DELAY_MS)
        self._delay.timeout.connect(lambda: self.model.set_filter(self.filter.text()))
        # After the selection has told everyone: answering it at once would tell them twice.
        self._hidden = QTimer(self)
        self._hidden.setSingleShot(True)
        self._hidden.setInterval(0)
        self._hidden.timeout.connect(self._tell_hidden)
        self.filter.textChanged.connect(lambda _text: self._delay.start())
        self.filter.returnPressed.connect(self.table.setFocus)
        self.model.filter_problem.connect(self._show_problem)
        self.model.arranged.connect(self._on_news)
        services.store.changed.connect(lambda _ids: self._on_news())
        services.selection.current_changed.connect(self._follow)
        services.selection.changed.connect(lambda: self._follow(services.selection.current))
        self.views.chosen.connect(self.apply_look)
        self.views.changed.connect(self._show_view)
        services.daemons.listed.connect(self._name_daemons)
        services.daemons.state_changed.connect(lambda _link: self.model.repaint())
        self._name_daemons()
        self._show_view()
        self._show_count()

    @property
    def filter_problem(self) -> str:
        """What is wrong with the filter; empty when nothing is."""
        return self._problem.text()

    def show_run(self, run_id: str) -> None:
        """Select a run and bring it into view, clearing a filter that hides it."""
        if self.model.row_of(run_id) < 0 and self.filter.text():
            self.filter.clear()
            self.model.set_filter("")
        # Not by the table's own `selectRow`: while Ctrl is held, that takes a selected row away.
        self._services.selection.select((run_id,))
        self._follow(run_id)
        place = self.model.row_of(run_id)
        if place >= 0:
            self.table.scrollTo(self.model.index(place, 0))

    def show_daemon(self, name: str) -> None:
        """Show the runs of one daemon alone."""
        self.filter.setText(f'{DAEMON}:"{name}"')

    def use_actions(self, actions: ActionBinder) -> None:
        """Show the window's actions as buttons and in the menus."""
        self._actions = actions
        for place, name in enumerate(_TOOLS):
            tool = QToolButton()
            tool.setDefaultAction(actions.actions[name])
            tool.setAccessibleName(actions.actions[name].text())
            self._tools.insert_widget(place, tool)
        self.table.opened.connect(lambda: actions.trigger("view.watch"))
        self.table.columns_wanted.connect(lambda: actions.trigger("runs.columns"))
        self._views_menu.aboutToShow.connect(lambda: self.views.fill(self._views_menu, actions))

    def set_grouped(self, grouped: bool) -> None:
        """Gather runs that differ only in their seed, or show each by itself."""
        self.model.set_view(replace(self.model.view, grouped=grouped, by_experiment=False))
        self._show_grouping()

    def toggle_grouping(self) -> None:
        """Switch grouping on or off."""
        self.set_grouped(not self.model.view.grouped)

    def toggle_experiments(self) -> None:
        """Show each experiment as one row, or every run."""
        view = self.model.view
        self.model.set_view(replace(view, grouped=False, by_experiment=not view.by_experiment))
        self._show_grouping()

    def _show_grouping(self) -> None:
        if self._actions is not None:
            view = self.model.view
            self._actions.actions["runs.group"].setChecked(view.grouped)
            self._actions.actions["runs.experiments"].setChecked(view.by_experiment)

    def look(self) -> TableLook:
        """How the table is looked at now."""
        return self.table.look(self.filter.text().strip())

    def apply_look(self, look: TableLook) -> None:
        """Look at the table in another way."""
        self.filter.setText(look.filter)
        self._delay.stop()
        self.table.apply_look(look)
        self.model.set_filter(look.filter)
        self._show_grouping()

    def restore_look(self, look: TableLook) -> None:
        """The look of the last window; a saved view that it equals is the one in use."""
        self.apply_look(look)
        self.views.recognise(self.look())

    def csv_text(self) -> Callable[[], str]:
        """Makes the CSV of the rows and columns that are shown now; call it off the GUI thread."""
        runs, columns = self.model.runs_shown(), self.table.visible_columns()
        return lambda: table_csv(columns, runs)

    def edit_in_place(self) -> bool:
        """Edit the cell the keyboard is on; False when it is none that can be edited."""
        return self.table.hasFocus() and self.table.edit_current()

    def focus_filter(self) -> None:
        """Put the cursor into the filter."""
        self.filter.setFocus()
        self.filter.selectAll()

    def _name_daemons(self) -> None:
        several = self._services.daemons.several
        if several != self.model.names_daemons:
            self.table.name_daemons(self._where if several else None)

    def _where(self, run: RunRecord) -> str:
        daemons = self._services.daemons
        where = daemons.where(run.run_id)
        lost = daemons.of(run.run_id).state.name == LOST
        return f"{where} (not connected)" if lost and where else where

    # ------------------------------------------------------------ building

    def _make_bar(self) -> QWidget:
        bar = QWidget()
        tools = self._tools = WrappingRow(spacing=5)
        self._view_button = QToolButton()
        self._view_button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._view_button.setAccessibleName("Views and columns of the table")
        self._views_menu = QMenu(self._view_button)
        self._view_button.setMenu(self._views_menu)
        tools.addWidget(self._view_button)
        tools.addWidget(self._count)
        bar.setLayout(column(self.filter, tools, spacing=6))
        return bar

    def _make_table(self) -> RunTableView:
        table = RunTableView(self.model, self._services.themes)
        table.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        table.customContextMenuRequested.connect(self._open_menu)
        sure(table.selectionModel()).selectionChanged.connect(lambda *_: self._on_selection())
        sure(table.selectionModel()).currentChanged.connect(lambda *_: self._on_selection())
        return table

    # ------------------------------------------------------------ reacting

    def _on_selection(self) -> None:
        # While a run is waited for, the table's own selection is not what the user wants.
        if self._choosing or self._wanted:
            return
        chosen = _in_front(self.model.row_at(self.table.currentIndex().row()))
        ids = self._table_ids()
        self._services.selection.select(ids, chosen if chosen in ids else "")

    def _table_ids(self) -> tuple[str, ...]:
        """The runs of the selected rows."""
        rows = sorted({index.row() for index in sure(self.table.selectionModel()).selectedRows()})
        ids: list[str] = []
        for place in rows:
            item = self.model.row_at(place)
            if isinstance(item, Group):
                ids += [run.run_id for run in item.runs]
            elif item is not None:
                ids.append(item.run_id)
        return tuple(dict.fromkeys(ids))

    def _on_news(self) -> None:
        # The model has heard of a change before: a run that is still without a row has none.
        self._show_count()
        if self._wanted:
            self._follow(self._wanted)

    def _tell_hidden(self) -> None:
        """Select nothing: a command must never reach a run that the table does not show."""
        run_id, store = self._wanted, self._services.store
        run = store.get(run_id)
        # A run that was just submitted gets its row with the next news.
        if not run_id or run is None or not store.announced(run_id):
            return
        # It is there and has no row: waiting longer would keep the table from being used.
        self._wanted = ""
        if not self.model.hides(run_id):
            return
        self._services.selection.select(())
        if is_real(run):
            text = f"The filter hides {title_of(run)}"
            self._services.notices.say(
                Notice("info", text, "", "Show", lambda: self.show_run(run_id), run_id)
            )

    def _follow(self, run_id: str) -> None:
        """Something else chose a run: select its row, now or when it appears."""
        # A run that was just submitted is selected before its row exists.
        self._wanted = ""
        if not run_id or self._table_ids() == self._services.selection.ids:
            return
        place = self.model.row_of(run_id)
        if place < 0:
            # Runs that were sent together may be one row, an experiment that is folded.
            place = self.model.group_row_of(self._services.selection.ids)
        if place < 0:
            self._wanted = run_id
            # What is highlighted is what commands reach: until the row is there, nothing is.
            self._choosing = True
            sure(self.table.selectionModel()).clearSelection()
            self._choosing = False
            self._hidden.start()
            return
        flags = QItemSelectionModel.SelectionFlag
        chooser = sure(self.table.selectionModel())
        self._choosing = True
        chooser.setCurrentIndex(self.model.index(place, 0), flags.ClearAndSelect | flags.Rows)
        for other in self._services.selection.ids:
            row_of_other = self.model.row_of(other)
            if row_of_other >= 0:
                chooser.select(self.model.index(row_of_other, 0), flags.Select | flags.Rows)
        self._choosing = False

    def _open_menu(self, position: QPoint) -> None:
        if self._actions is None:
            return
        menu = QMenu(self)
        for name in _MENU:
            if name:
                menu.addAction(self._actions.actions[name])
            else:
                menu.addSeparator()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(sure(self.table.viewport()).mapToGlobal(position))

    def _show_problem(self, text: str) -> None:
        self._problem.setText(text)
        self._problem.setVisible(bool(text))
        restyle(self.filter, "problem", "true" if text else "false")

    def _show_view(self) -> None:
        self._view_button.setText(f"{self.views.current or 'View'}  ▾")
        self._view_button.setToolTip("Saved views, columns, grouping, export")

    def _show_count(self) -> None:
        counts = summary(self._services.store.runs)
        self._count.setText(
            f"{counts['running']} running · {counts['queued']} queued · {counts['ended']:,} ended"
        )
        nothing = self.model.rowCount() == 0
        self._stack.setCurrentWidget(self._empty if nothing else self.table)
        if nothing and not self.filter.text():
            self._empty.say("No runs yet", "Fill in the form and press Train: it appears here.")
        elif nothing:
            self._empty.say("No matching runs", "Clear the filter to see all runs.")


def _in_front(item: Row | None) -> str:
    """The run of a row that the run panel shows; of a group, one that is at work."""
    if isinstance(item, Group):
        return next((run.run_id for run in item.runs if run.is_running), "")
    return "" if item is None else str(item.run_id)
