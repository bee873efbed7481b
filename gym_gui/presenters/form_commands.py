"""Making runs: the form in front, what can be put into it, and what can be taken from it."""

from collections.abc import Callable, Iterable
from pathlib import Path

from gym_gui.actions import rules
from gym_gui.actions.action import Action
from gym_gui.forms.base import WorkerForm
from gym_gui.forms.registry import EVALUATE, RESUME, SCRIPT, TRAIN, forms_for
from gym_gui.forms.script_form import content_of
from gym_gui.forms.train_form import TrainForm
from gym_gui.models.launch import Launch
from gym_gui.models.palette_items import PaletteItem
from gym_gui.models.train_draft import TrainDraft
from gym_gui.panels.dialogs import Dialogs
from gym_gui.panels.launch_panel import DEFAULT_ACTOR, LaunchPanel
from gym_gui.presenters.keyboard_commands import focus_first
from gym_gui.presenters.run_commands import RunCommands, read_config
from gym_gui.services import Services
from gym_gui.widgets.command_palette import CommandPalette
from mosaic.config.model import TrainRunConfig
from mosaic.presenting import run_status


class FormCommands:
    """What can be done with the forms of the launch panel.

    Args:
        services: The window's shared parts.
        launch: Where the forms are.
        runs: Sends configs to the daemon.
        dialogs: Asks for files.
        palette: Offers presets.
        show_layout: Switches the window to a named layout.
    """

    def __init__(
        self,
        services: Services,
        launch: LaunchPanel,
        runs: RunCommands,
        dialogs: Dialogs,
        palette: CommandPalette,
        show_layout: Callable[[str], None],
    ) -> None:
        self._services = services
        self._launch = launch
        self._runs = runs
        self._dialogs = dialogs
        self._palette = palette
        self._show_layout = show_layout

    def actions(self) -> tuple[Action, ...]:
        """Everything in the Run menu that makes a run."""
        return (*self._form_actions(), *self._run_actions())

    def _form_actions(self) -> tuple[Action, ...]:
        return (
            Action(
                id="run.new",
                title="New run",
                do=self.new_run,
                menu="Run",
                shortcut="Ctrl+N",
                icon="plus",
            ),
            Action(
                id="run.train_cartpole",
                title="Train CartPole now",
                do=self.train_cartpole,
                menu="Run",
                icon="play",
                enabled=rules.connected,
            ),
            Action(
                id="run.submit",
                title="Submit the form",
                do=lambda: self._with_form(lambda form: form.submit()),
                menu="Run",
                shortcut="Ctrl+Return",
                icon="play",
                enabled=rules.connected,
            ),
            Action(
                id="run.dry_run",
                title="Dry run of the form",
                do=lambda: self._with_form(lambda form: form.dry_run()),
                menu="Run",
                shortcut="Ctrl+Shift+D",
                icon="check",
            ),
            Action(
                id="run.presets",
                title="Use a preset …",
                do=self.choose_preset,
                menu="Run",
                shortcut="Ctrl+Shift+L",
                icon="book",
            ),
            Action(
                id="run.save_preset",
                title="Save the form as preset …",
                do=lambda: self.train_form().bar.ask_preset_name(),
                menu="Run",
                icon="save",
            ),
            Action(
                id="run.copy_command",
                title="Copy the form as command",
                do=lambda: self.train_form().bar.copy("command"),
                menu="Run",
                shortcut="Ctrl+Alt+C",
                icon="clone",
            ),
            Action(
                id="run.copy_python",
                title="Copy the form as Python",
                do=lambda: self.train_form().bar.copy("Python"),
                menu="Run",
                icon="clone",
            ),
            Action(
                id="run.copy_json",
                title="Copy the form as JSON",
                do=lambda: self.train_form().bar.copy("JSON"),
                menu="Run",
                icon="clone",
            ),
            Action(
                id="run.open_config",
                title="Open a config …",
                do=lambda: self._dialogs.choose_config(self.load_config_file),
                menu="Run",
                shortcut="Ctrl+O",
                icon="folder",
            ),
        )

    def _run_actions(self) -> tuple[Action, ...]:
        return (
            Action(
                id="run.clone",
                title="Clone into the form",
                do=self.clone,
                menu="Run",
                shortcut="Ctrl+D",
                icon="clone",
                enabled=rules.one_run(run_status.is_real),
                separated=True,
            ),
            Action(
                id="run.retry",
                title="Run again",
                do=lambda: self._runs.again(self._services.selected_runs()),
                menu="Run",
                shortcut="Ctrl+R",
                icon="retry",
                enabled=rules.any_run(run_status.can_delete),
            ),
            Action(
                id="run.continue",
                title="Continue training …",
                do=lambda: self._from_run(RESUME),
                menu="Run",
                shortcut="Ctrl+Shift+R",
                icon="forward",
                enabled=rules.one_run(rules.has_full_checkpoint),
            ),
            Action(
                id="run.evaluate",
                title="Evaluate …",
                do=self.evaluate,
                menu="Run",
                shortcut="Ctrl+E",
                icon="flag",
                enabled=rules.any_run(rules.has_policy),
            ),
        )

    # ------------------------------------------------------------ the form

    def new_run(self) -> None:
        """Show the form."""
        self._show_layout("train")
        form = self._launch.current_form
        if form is not None:
            focus_first(form)

    def train_form(self) -> TrainForm:
        """The train form: the one in front, or the one of the default worker brought there."""
        form = self._launch.current_form
        if isinstance(form, TrainForm) and self._launch.isVisible():
            return form
        self._show_layout("train")
        shown = self._launch.show_form(TRAIN, DEFAULT_ACTOR)
        assert isinstance(shown, TrainForm)
        return shown

    def train_cartpole(self) -> None:
        """The one-press example: PPO on CartPole, long enough to see it learn."""
        draft = TrainDraft(run_name="first-steps", total_timesteps=100_000)
        self._runs.submit([Launch(config) for config in draft.configs()])
        self._show_layout("watch")

    def submit(self, launches: list[Launch], form: WorkerForm) -> None:
        """Send what a form made."""
        self._runs.submit(launches, form.show_refusal)

    def choose_preset(self) -> None:
        """Offer every preset of the algorithm in the train form."""
        form = self.train_form()
        found = {preset.name: preset for preset in form.bar.presets()}
        items = [
            PaletteItem(name, name, preset.hint, "book" if preset.shipped else "person")
            for name, preset in found.items()
        ]
        self._palette.ask(
            f"Fill in a preset of {form.algo.text}",
            items,
            (),
            lambda name: form.use_preset(found[name]),
        )

    def _with_form(self, do: Callable[[WorkerForm], None]) -> None:
        form = self._launch.current_form
        if form is not None:
            do(form)

    # ------------------------------------------------------------ into the form

    def environments(self) -> Iterable[str]:
        """The environments that the default worker's train form offers."""
        form = self._launch.form(TRAIN)
        return form.env.names if isinstance(form, TrainForm) else ()

    def new_run_in(self, env_id: str) -> None:
        """Show the train form with an environment chosen."""
        self.new_run()
        self.train_form().env.set_text(env_id)

    def load_config_file(self, path: Path) -> None:
        """Put a config file of the user's into the form."""
        self._services.calls.run(
            lambda: read_config(path),
            self.load_config,
            lambda error: self._services.notices.error(f"{path.name} cannot be opened", error),
        )

    def load_config(self, config: TrainRunConfig, parent: str = "") -> None:
        """Put a config into the form that made it; `parent` is the run that it starts from."""
        kind, content = _made_by(config, parent)
        if kind != TRAIN:
            self._show_layout("train")
            self._launch.show_form(kind, config.metadata.worker.type).restore(content)
            return
        draft = TrainDraft.from_config(config)
        self._show_layout("train")
        self._launch.choose(draft.worker)
        form = self._launch.show_form(TRAIN, draft.worker)
        actor = self._launch.actor_of(draft.worker)
        if actor is not None and actor.trains_algorithms:
            # The way a stored form comes back, so that a clone shows exactly what would be stored.
            form.restore(draft.to_json())
        else:
            self._services.notices.problem(f"There is no form for runs of {draft.worker}")

    def evaluate_file(self, path: Path) -> None:
        """Put a policy file into the evaluation form."""
        self._show_layout("train")
        actors = [a for a in self._launch.actors if EVALUATE in forms_for(a) and a.available]
        if actors:
            form = self._launch.show_form(EVALUATE, actors[0].worker_type)
            form.restore({"file": str(path)})

    def clone(self) -> None:
        """Put the selected run's config into the form."""
        run = self._services.current_run()
        if run is not None:
            self._runs.with_config(run, lambda config: self.load_config(config, run.parent_run_id))

    def evaluate(self) -> None:
        """Put the selected run, or all of the selected runs, into the evaluation form."""
        able = [run for run in self._services.selected_runs() if rules.has_policy(run)]
        if not able:
            return
        self._show_layout("train")
        form = self._launch.show_form(EVALUATE, able[0].worker)
        form.restore({"run_id": able[0].run_id, "run_ids": [run.run_id for run in able]})

    def _from_run(self, kind: str) -> None:
        run = self._services.current_run()
        if run is None:
            return
        self._show_layout("train")
        form = self._launch.show_form(kind, run.worker)
        form.restore({"run_id": run.run_id})


def _made_by(config: TrainRunConfig, parent: str) -> tuple[str, dict[str, object]]:
    """The form for a config, and what to put into it.

    A run that continues or evaluates another belongs into that form: in the train form its
    checkpoint would be carried along unseen, and training would begin from zero.
    """
    worker = config.worker
    extras = worker.extras.model_dump(exclude_unset=True)
    source: dict[str, object] = {"run_id": parent}
    if extras.get("mode") == "resume_training":
        if not parent:
            source["file"] = str(extras.get("checkpoint_path") or "")
        steps = str(worker.total_timesteps or "")
        return RESUME, {**source, "typed": {"Total timesteps": steps}}
    if extras.get("mode") == "policy_eval":
        if not parent:
            source["file"] = str(extras.get("policy_path") or "")
        typed = {"Seed": str(worker.seed), "Episodes": str(extras.get("eval_episodes") or 20)}
        return EVALUATE, {**source, "typed": typed}
    if extras.get("mode") == "script":
        return SCRIPT, content_of(config)
    return TRAIN, {}
