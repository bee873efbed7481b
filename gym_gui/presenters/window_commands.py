"""What each action does: one method a command, found by the action's id."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QUrl
from qtpy.QtGui import QDesktopServices, QGuiApplication

from gym_gui.forms.cleanrl_train_form import CleanRlTrainForm
from gym_gui.forms.registry import EVALUATE, RESUME, TRAIN, forms_for
from gym_gui.models import layouts
from gym_gui.models.train_draft import TrainDraft
from gym_gui.panels.launch_panel import DEFAULT_ACTOR
from gym_gui.presenters.run_archives import RunArchives
from gym_gui.presenters.run_commands import RunCommands, read_config
from gym_gui.presenters.tab_registry import LOGS
from gym_gui.widgets.ask import ask_name
from mosaic.errors import MosaicError

if TYPE_CHECKING:
    from gym_gui.main_window import MainWindow


class WindowCommands:
    """Every command by the id of its action."""

    def __init__(self, window: MainWindow, runs: RunCommands) -> None:
        self._window = window
        self._services = window.services
        self._runs = runs
        self._views = window.runs_panel.views
        self.archives = RunArchives(window.services)
        self._table: dict[str, Callable[[], object]] = {
            "run.new": self.new_run,
            "run.train_cartpole": self.train_cartpole,
            "run.submit": lambda: self._with_form("submit"),
            "run.dry_run": lambda: self._with_form("dry_run"),
            "run.presets": window.palettes.presets,
            "run.save_preset": lambda: self.train_form().bar.ask_preset_name(),
            "run.copy_command": lambda: self.train_form().bar.copy("command"),
            "run.copy_python": lambda: self.train_form().bar.copy("Python"),
            "run.copy_json": lambda: self.train_form().bar.copy("JSON"),
            "run.open_config": window.dialogs.choose_config,
            "run.pause": lambda: runs.pause(self._selected()),
            "run.resume": lambda: runs.resume(self._selected()),
            "run.cancel": lambda: window.dialogs.confirm_cancel(self._selected(), runs.cancel),
            "run.clone": self.clone,
            "run.retry": lambda: runs.again(self._selected()),
            "run.continue": lambda: self._from_run(RESUME),
            "run.evaluate": lambda: self._from_run(EVALUATE),
            "run.tags": self._edit_tags,
            "run.pin": self._pin,
            "run.copy_id": self._copy_ids,
            "run.open_folder": self._open_folder,
            "run.export": lambda: window.dialogs.export_runs(self._selected(), self.archives),
            "run.import": lambda: window.dialogs.import_runs(self.archives),
            "run.bundle": lambda: window.dialogs.save_bundle(self._one()),
            "run.delete": lambda: runs.delete(self._selected()),
            "run.undo_delete": runs.undo_delete,
            "view.lock": window.toggle_lock,
            "view.reset": window.docks.reset,
            "view.theme": window.switch_theme,
            "view.larger": lambda: window.scale_text(1),
            "view.smaller": lambda: window.scale_text(-1),
            "view.notices": lambda: window.docks.show_dock(layouts.NOTICES),
            "analyse.compare": self.compare,
            "analyse.diff": self._diff,
            "analyse.logs": lambda: self._open_tab(LOGS),
            "analyse.tensorboard": lambda: self._open_tab("tensorboard"),
            "runs.filter": window.runs_panel.focus_filter,
            "runs.group": window.toggle_grouping,
            "runs.columns": window.dialogs.choose_columns,
            "runs.views": window.palettes.views,
            "runs.save_view": self._save_view,
            "runs.delete_view": lambda: self._views.delete(self._views.current),
            "runs.export_csv": window.dialogs.export_table,
            "play.start": lambda: window.show_layout("play"),
            "daemon.start": self._services.link.start_daemon,
            "daemon.stop": self._stop_daemon,
            "app.palette": window.palettes.actions,
            "app.find": window.palettes.places,
            "app.shortcuts": window.dialogs.show_shortcuts,
            "app.welcome": window.show_welcome,
            "app.settings": window.dialogs.show_settings,
            "app.quit": window.close,
        }
        for name in layouts.LAYOUTS:
            self._table[f"view.{name}"] = lambda layout=name: window.show_layout(layout)

    def run(self, action_id: str) -> None:
        """Do what an action says."""
        self._table[action_id]()

    @property
    def ids(self) -> set[str]:
        """The actions that have a command."""
        return set(self._table)

    # ------------------------------------------------------------ making runs

    def new_run(self) -> None:
        """Show the form."""
        self._window.show_layout("train")
        form = self._window.launch.current_form
        if form is not None:
            form.setFocus()

    def train_form(self) -> CleanRlTrainForm:
        """The train form: the one in front, or the one of the default worker brought there."""
        launch = self._window.launch
        form = launch.current_form
        if isinstance(form, CleanRlTrainForm) and launch.isVisible():
            return form
        self._window.show_layout("train")
        shown = launch.show_form(TRAIN, DEFAULT_ACTOR)
        assert isinstance(shown, CleanRlTrainForm)
        return shown

    def train_cartpole(self) -> None:
        """The one-press example: PPO on CartPole, long enough to see it learn."""
        draft = TrainDraft(run_name="first-steps", total_timesteps=100_000)
        self._runs.submit(draft.configs())
        self._window.show_layout("watch")

    def submit(self, configs: list[dict[str, Any]], parent: str, form: Any) -> None:
        """Send what a form made."""
        self._runs.submit(configs, parent, form.show_refusal)

    def load_config_file(self, path: Path) -> None:
        """Put a config file into the form."""
        self._services.link.calls.run(
            lambda: read_config(path),
            self.load_config,
            lambda error: self._services.notices.error(f"{path.name} cannot be opened", error),
        )

    def load_config(self, document: dict[str, Any]) -> None:
        """Put a config into the train form."""
        try:
            draft = TrainDraft.from_config(document)
        except (KeyError, TypeError, MosaicError) as error:
            self._services.notices.problem(f"This is no config of a run: {error}")
            return
        self._window.show_layout("train")
        self._window.launch.choose(draft.worker)
        form = self._window.launch.show_form(TRAIN, draft.worker)
        actor = self._window.launch.actor_of(draft.worker)
        if actor is not None and actor.trains_algorithms:
            form.restore(draft.to_json())
        else:
            self._services.notices.problem(f"There is no form for runs of {draft.worker}")

    def evaluate_file(self, path: Path) -> None:
        """Put a policy file into the evaluation form."""
        self._window.show_layout("train")
        actors = [a for a in self._window.launch.actors if EVALUATE in forms_for(a) and a.available]
        if actors:
            form = self._window.launch.show_form(EVALUATE, actors[0].worker_type)
            form.restore({"file": str(path)})

    def clone(self) -> None:
        """Put the selected run's config into the form."""
        run = self._one()
        if run is not None:
            self._runs.with_config(run, self.load_config)

    def _from_run(self, kind: str) -> None:
        run = self._one()
        if run is None:
            return
        self._window.show_layout("train")
        form = self._window.launch.show_form(kind, run["worker"])
        form.restore({"run_id": run["run_id"]})

    def _with_form(self, method: str) -> None:
        form = self._window.launch.current_form
        if form is not None:
            getattr(form, method)()

    # ------------------------------------------------------------ looking

    def compare(self) -> None:
        """Show the selected runs side by side."""
        self._window.show_layout("analyse")
        self._window.compare.show_runs(self._services.selection.ids)

    def _diff(self) -> None:
        self.compare()
        self._window.compare.show_diff()

    def _open_tab(self, name: str) -> None:
        if not self._window.run_panel.isVisible():
            self._window.show_layout("watch")
        self._window.run_panel.open_tab(name)

    def _save_view(self) -> None:
        panel = self._window.runs_panel
        ask_name(
            self._window,
            "Save this view",
            "Filter, order, grouping and columns, under the name:",
            self._views.current,
            lambda name: self._views.save(name, panel.look()),
        )

    def _edit_tags(self) -> None:
        run = self._one()
        if run is not None and not self._window.runs_panel.edit_in_place():
            self._window.dialogs.edit_run(run, self._runs.update)

    def _pin(self) -> None:
        run = self._one()
        if run is not None:
            model = self._window.runs_panel.model
            same = model.view.pinned == run["run_id"]
            model.set_view(pinned="" if same else run["run_id"])
            self._window.compare.set_baseline(model.view.pinned)

    def _copy_ids(self) -> None:
        QGuiApplication.clipboard().setText("\n".join(self._services.selection.ids))
        self._services.notices.info("Run id copied")

    def _open_folder(self) -> None:
        run = self._one()
        if run is not None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(run["run_dir"]))

    def _stop_daemon(self) -> None:
        self._services.link.call(
            "shutdown",
            "leave",
            failed=lambda error: self._services.notices.error("The daemon was not stopped", error),
        )

    def _selected(self) -> tuple[Any, ...]:
        return self._services.selected_runs()

    def _one(self) -> Any:
        runs = self._selected()
        return (
            runs[0]
            if len(runs) == 1
            else self._services.store.get(self._services.selection.current)
        )
