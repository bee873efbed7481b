"""What can be done with the runs that are selected: steer, describe, keep, delete."""

from dataclasses import replace

from qtpy.QtCore import QUrl
from qtpy.QtGui import QDesktopServices, QGuiApplication

from gym_gui.actions import rules
from gym_gui.actions.action import Action
from gym_gui.panels.compare_panel import ComparePanel
from gym_gui.panels.dialogs import Dialogs
from gym_gui.panels.runs_panel import RunsPanel
from gym_gui.presenters.run_archives import RunArchives
from gym_gui.presenters.run_commands import RunCommands
from gym_gui.services import Services
from gym_gui.widgets.qt_types import sure
from mosaic.presenting import run_status


class SelectionCommands:
    """Acts on the runs that are selected in the table.

    Args:
        services: The window's shared parts, the selection among them.
        runs: Sends commands to the daemon.
        archives: Writes and reads files of runs.
        dialogs: Asks before work is lost, and for files.
        table: The run table, whose cells are edited in place.
        compare: Draws the pinned run stronger than the others.
    """

    def __init__(
        self,
        services: Services,
        runs: RunCommands,
        archives: RunArchives,
        dialogs: Dialogs,
        table: RunsPanel,
        compare: ComparePanel,
    ) -> None:
        self._services = services
        self._runs = runs
        self._archives = archives
        self._dialogs = dialogs
        self._table = table
        self._compare = compare

    def actions(self) -> tuple[Action, ...]:
        """Everything in the Run menu that needs a run."""
        return (*self._steering(), *self._describing(), *self._keeping())

    def _steering(self) -> tuple[Action, ...]:
        runs, selected = self._runs, self._services.selected_runs
        return (
            Action(
                id="run.pause",
                title="Pause",
                do=lambda: runs.pause(selected()),
                menu="Run",
                shortcut="Ctrl+Shift+U",
                icon="pause",
                enabled=rules.any_run(run_status.can_pause),
                separated=True,
            ),
            Action(
                id="run.resume",
                title="Resume",
                do=lambda: runs.resume(selected()),
                menu="Run",
                shortcut="Ctrl+U",
                icon="play",
                enabled=rules.any_run(run_status.can_resume),
            ),
            Action(
                id="run.save_checkpoint",
                title="Save checkpoint now",
                do=lambda: runs.save(selected()),
                menu="Run",
                shortcut="Ctrl+S",
                icon="save",
                enabled=rules.any_run(run_status.can_save),
            ),
            Action(
                id="run.cancel",
                title="Cancel …",
                do=lambda: self._dialogs.confirm_cancel(selected(), runs.cancel),
                menu="Run",
                shortcut="Ctrl+K",
                icon="stop",
                enabled=rules.any_run(run_status.can_cancel),
            ),
        )

    def _describing(self) -> tuple[Action, ...]:
        real = rules.one_run(run_status.is_real)
        return (
            Action(
                id="run.tags",
                title="Edit tags and notes …",
                do=self._edit,
                menu="Run",
                shortcut="F2",
                icon="tag",
                enabled=real,
                separated=True,
            ),
            Action(
                id="run.pin",
                title="Pin as baseline",
                do=self._pin,
                menu="Run",
                shortcut="Ctrl+B",
                icon="pin",
                enabled=real,
            ),
            Action(
                id="run.copy_id",
                title="Copy run id",
                do=self._copy_ids,
                menu="Run",
                shortcut="Ctrl+Shift+C",
                icon="clone",
                enabled=rules.has_selection,
            ),
            Action(
                id="run.open_folder",
                title="Open folder",
                do=self._open_folder,
                menu="Run",
                shortcut="Ctrl+Shift+F",
                icon="folder",
                enabled=real,
            ),
        )

    def _keeping(self) -> tuple[Action, ...]:
        selected, ended = self._services.selected_runs, rules.any_run(run_status.can_delete)
        return (
            Action(
                id="run.export",
                title="Export …",
                do=lambda: self._dialogs.export_runs(selected(), self._archives),
                menu="Run",
                shortcut="Ctrl+Shift+X",
                icon="save",
                enabled=ended,
            ),
            Action(
                id="run.import",
                title="Import runs …",
                do=lambda: self._dialogs.import_runs(self._archives),
                menu="Run",
                shortcut="Ctrl+Shift+O",
                icon="folder",
                enabled=rules.connected,
            ),
            Action(
                id="run.bundle",
                title="Save support bundle …",
                do=lambda: self._dialogs.save_bundle(self._services.current_run()),
                menu="Run",
                icon="save",
                enabled=rules.one_run(run_status.is_real),
            ),
            Action(
                id="run.delete",
                title="Move to trash",
                do=lambda: self._runs.delete(selected()),
                menu="Run",
                shortcut="Del",
                icon="trash",
                enabled=ended,
            ),
            Action(
                id="run.trash",
                title="Trash …",
                do=self._dialogs.show_trash,
                menu="Run",
                shortcut="Ctrl+Shift+Del",
                icon="trash",
                enabled=rules.connected,
            ),
            Action(
                id="run.undo_delete",
                title="Undo delete",
                do=self._runs.undo_delete,
                menu="Run",
                shortcut="Ctrl+Z",
                icon="undo",
                enabled=rules.can_undo,
            ),
        )

    def _edit(self) -> None:
        run = self._services.current_run()
        if run is not None and not self._table.edit_in_place():
            self._dialogs.edit_run(run, self._runs.update)

    def _pin(self) -> None:
        run = self._services.current_run()
        if run is not None:
            model = self._table.model
            same = model.view.pinned == run.run_id
            model.set_view(replace(model.view, pinned="" if same else run.run_id))
            self._compare.set_baseline(model.view.pinned)

    def _copy_ids(self) -> None:
        sure(QGuiApplication.clipboard()).setText("\n".join(self._services.selection.ids))
        self._services.notices.info("Run id copied")

    def _open_folder(self) -> None:
        run = self._services.current_run()
        if run is None:
            return
        if self._services.link_of(run.run_id).local:
            QDesktopServices.openUrl(QUrl.fromLocalFile(run.run_dir))
        else:
            self._services.notices.info(f"The folder is on the daemon's machine: {run.run_dir}")
