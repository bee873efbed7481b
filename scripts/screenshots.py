"""Pictures of every window, dialog, tab, theme and empty state, made from real runs.

`make screenshots` runs it. It starts a daemon on a home of its own, trains, evaluates and plays,
drives the window through everything there is to see, and writes PNG files.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("MOSAIC_SETTING_WARM_START", "false")

from qtpy.QtWidgets import QDialog, QWidget

from gym_gui.app import make_application, open_window
from gym_gui.main_window import MainWindow
from mosaic.client import TrainerClient
from mosaic.config.paths import Home, project_root
from mosaic.errors import MosaicError

_SIZE = (1500, 920)
_PATIENCE_S = 240.0
_FAILING = (
    "#!/bin/sh\n# @description: fails on purpose\necho preparing\necho 'no such disk' >&2\nexit 3\n"
)


class Photographer:
    """Drives one window and takes pictures of it."""

    def __init__(self, window: MainWindow, application: Any, folder: Path) -> None:
        self.window = window
        self.services = window.services
        self._application = application
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def spin(self, seconds: float) -> None:
        """Let the window live."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._application.processEvents()
            time.sleep(0.005)

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Let the window live until something is true."""
        deadline = time.monotonic() + _PATIENCE_S
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"never happened: {what}")
            self._application.processEvents()
            time.sleep(0.005)
        return value

    def shoot(self, name: str, target: QWidget | None = None, wait_s: float = 0.5) -> None:
        """Write one picture."""
        self.spin(wait_s)
        self.window.toasts.hide()
        (target or self.window).grab().save(str(self._folder / f"{name}.png"))
        print(name, flush=True)

    def shoot_dialog(self, name: str) -> None:
        """Write a picture of the dialog that is open, and close it."""
        self.spin(0.5)
        dialog = next(one for one in self.window.findChildren(QDialog) if one.isVisible())
        dialog.grab().save(str(self._folder / f"{name}.png"))
        print(name, flush=True)
        dialog.close()

    # ------------------------------------------------------------ runs

    def submit(self, config: dict[str, Any]) -> str:
        """Send a run and wait until it is listed."""
        sent: list[Any] = []
        self.services.link.call("submit", config, done=sent.append, failed=sent.append)
        self.until(lambda: sent, "an answer")
        if not isinstance(sent[0], dict):
            raise sent[0]
        run_id = str(sent[0]["run_id"])
        self.until(lambda: run_id in self.services.store.runs, "the run is listed")
        return run_id

    def reach(self, run_id: str, *states: str) -> dict[str, Any]:
        """Wait for a run."""
        store = self.services.store
        self.until(lambda: store.runs[run_id]["state"] in states, f"{run_id} in {states}")
        return store.runs[run_id]

    def show(self, run_id: str, tab: str, layout: str = "watch") -> Any:
        """Bring a tab of a run to the front."""
        self.window.show_layout(layout)
        self.window.runs_panel.show_run(run_id)
        self.until(lambda: self.services.selection.current == run_id, "the run is selected")
        self.spin(0.2)
        self.window.run_panel.open_tab(tab)
        return self.window.run_panel.tab(tab)


def config(algo: str, env_id: str, steps: int | None, **fields: Any) -> dict[str, Any]:
    """A run for the pictures."""
    worker = {"type": fields.pop("worker", "cleanrl")}
    inner: dict[str, Any] = {"algo": algo, "env_id": env_id, "seed": fields.pop("seed", 1)}
    if steps:
        inner["total_timesteps"] = steps
    inner["extras"] = fields.pop("extras", {})
    return {"artifacts": {}, "metadata": {"worker": {**worker, "config": inner}}, **fields}


def first_steps(camera: Photographer) -> None:
    """An empty workbench, its form, its dialogs."""
    window = camera.window
    camera.until(lambda: window.launch.actors and window.services.store.complete, "connected")
    form = window.launch.form("train")
    camera.until(lambda: form._described and form.env.names, "the form")
    camera.shoot("welcome")
    form.steps.set_value(100_000)
    form.parameters.editor("num_envs").set_value(8)
    form.parameters.editor("gamma").editor.setText("1.5")
    form.parameters.advanced.setChecked(True)
    form.tabs.setCurrentIndex(1)
    form.wandb.track.setChecked(True)
    camera.shoot("train-form-options-and-error")
    form.wandb.track.setChecked(False)
    form.parameters.editor("gamma").reset()
    form.parameters.advanced.setChecked(False)
    form.notes.notes.setPlainText("Baseline for the seed comparison.")
    form.dry_run()
    camera.until(lambda: "dry run passed" in form.notes.results.toPlainText(), "the dry run")
    camera.shoot("train-form-dry-run")
    form.tabs.setCurrentIndex(0)
    for kind in ("resume", "evaluate", "script"):
        window.launch.show_form(kind, "cleanrl")
        camera.shoot(f"form-{kind}-empty")
    for worker in ("human", "spade_bdi", "llm", "example"):
        window.launch.choose(worker)
        camera.shoot(f"actor-{worker}", wait_s=1.5)
    window.launch.choose("cleanrl")
    window.launch.show_form("train", "cleanrl")
    for layout in ("watch", "analyse", "play"):
        window.show_layout(layout)
        camera.shoot(f"empty-{layout}", wait_s=1.0)
    window.dialogs.show_settings()
    camera.shoot_dialog("settings")
    window.dialogs.show_shortcuts()
    camera.shoot_dialog("shortcuts")


def train(camera: Photographer, scratch: Path) -> dict[str, str]:
    """Real runs of every kind; the pictures come later."""
    offline = {"environment": {"WANDB_MODE": "offline"}, "run_name": "tracked offline"}
    wandb = {"extras": {"track_wandb": True}, **offline}
    ids = {
        "one": camera.submit(config("ppo", "CartPole-v1", 30_000, run_name="ppo-cartpole-s1")),
        "two": camera.submit(
            config("ppo", "CartPole-v1", 30_000, seed=2, run_name="ppo-cartpole-s2")
        ),
        "dqn": camera.submit(
            config("dqn", "CartPole-v1", 12_000, extras={"capture_video": True}, run_name="dqn")
        ),
        "wandb": camera.submit(config("ppo", "CartPole-v1", 8_000, **wandb)),
    }
    script = scratch / "failing.sh"
    script.write_text(_FAILING)
    extras = {"mode": "script", "script_path": str(script)}
    ids["failed"] = camera.submit(config("script", "", None, extras=extras, run_name="two-phases"))
    actor = camera.window.launch.actor_of("spade_bdi")
    if actor is not None and actor.available:
        spade = {"worker": "spade_bdi", "extras": {"episodes": 40}, "run_name": "bdi-frozenlake"}
        ids["spade"] = camera.submit(config("spade_bdi", "FrozenLake-v1", None, **spade))
    for name in list(ids):
        ended = camera.reach(ids[name], "TERM")
        print(f"{name}: {ended['outcome']} {ended['reason'] or ''}", flush=True)
    evaluate = {
        "mode": "policy_eval",
        "policy_path": f"{camera.services.store.runs[ids['one']]['run_dir']}/checkpoints",
        "eval_episodes": 5,
        "capture_video": True,
    }
    ids["eval"] = camera.submit(
        config("ppo", "CartPole-v1", None, extras=evaluate, run_name="eval of ppo-cartpole-s1")
    )
    camera.reach(ids["eval"], "TERM")
    _add_study(Path(camera.services.store.runs[ids["dqn"]]["run_dir"]))
    grid = {"fastlane_video_mode": "grid", "algo_params": {"num_envs": 4}}
    ids["live"] = camera.submit(
        config("ppo", "CartPole-v1", 50_000_000, extras=grid, run_name="ppo-live")
    )
    camera.reach(ids["live"], "EXEC")
    waiting = {"resources": {"cpus": {"requested": 2}}, "run_name": "waits for two slots"}
    ids["queued"] = camera.submit(config("ppo", "Acrobot-v1", 100_000, **waiting))
    return ids


def _add_study(run_dir: Path) -> None:
    """A real Optuna study where a sweep's would be."""
    try:
        import optuna
    except ImportError:
        return
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        storage=f"sqlite:///{run_dir}/optuna.db", study_name="dqn-cartpole", direction="maximize"
    )

    def objective(trial: Any) -> float:
        rate = trial.suggest_float("learning_rate", 1e-5, 1e-2, log=True)
        batch = trial.suggest_categorical("batch_size", [64, 128, 256])
        tau = trial.suggest_float("tau", 0.1, 1.0)
        return 500.0 - abs(rate - 1e-3) * 4e4 - abs(batch - 128) * 0.2 - abs(tau - 0.9) * 20

    study.optimize(objective, n_trials=24)


def runs_and_tabs(camera: Photographer, ids: dict[str, str], theme: str) -> None:
    """Every tab of every kind of run."""
    window = camera.window
    live = camera.show(ids["live"], "live")
    camera.until(lambda: live.frames_shown > 5, "frames")
    camera.shoot(f"live-{theme}", wait_s=2)
    camera.show(ids["live"], "overview", "train")
    camera.shoot(f"train-{theme}", wait_s=1.5)
    camera.show(ids["one"], "charts")
    camera.shoot(f"charts-{theme}", wait_s=2)
    camera.services.selection.select((ids["one"], ids["two"], ids["dqn"]))
    window.binder.trigger("analyse.compare")
    camera.shoot(f"compare-{theme}", wait_s=2.5)


def details(camera: Photographer, ids: dict[str, str]) -> None:
    """The tabs that need one picture."""
    window = camera.window
    camera.services.selection.select((ids["one"], ids["two"]))
    window.binder.trigger("analyse.compare")
    window.compare.grid.band.setChecked(True)
    camera.shoot("compare-band", wait_s=2.5)
    window.compare.grid.band.setChecked(False)
    window.compare.show_diff()
    camera.shoot("config-differences", wait_s=1.5)
    window.compare.tabs.setCurrentIndex(0)
    window.runs_panel.show_run(ids["one"])
    for kind in ("resume", "evaluate"):
        form = window.launch.show_form(kind, "cleanrl")
        window.show_layout("train")
        form.restore({"run_id": ids["one"]})
        camera.shoot(f"form-{kind}")
    window.launch.show_form("train", "cleanrl")
    board = camera.show(ids["one"], "tensorboard")
    camera.until(lambda: board.web.address, "TensorBoard")
    camera.shoot("tensorboard", wait_s=9)
    for run, tab in (
        ("wandb", "wandb"), ("dqn", "optuna"), ("one", "logs"), ("one", "details"),
        ("failed", "failure"), ("spade", "telemetry"), ("spade", "replay"),
    ):  # fmt: skip
        if run not in ids:
            continue
        widget = camera.show(ids[run], tab)
        if tab == "logs":
            widget.lifecycle.setChecked(True)
        camera.shoot(f"{tab}-{run}" if tab == "replay" else tab, wait_s=3)
    replay = camera.show(ids["eval"], "replay")
    camera.until(lambda: replay.player.slider.maximum() > 3, "the video")
    replay.player.slider.setValue(20)
    camera.shoot("replay-video")
    camera.show(ids["queued"], "overview", "train")
    camera.shoot("queued-with-reason")
    window.binder.actions["runs.group"].trigger()
    window.show_layout("watch")
    camera.shoot("grouped-by-seed")
    window.binder.actions["runs.group"].trigger()
    window.runs_panel.filter.setText("alog:ppo")
    camera.shoot("filter-with-hint")
    window.runs_panel.filter.clear()
    window.palettes.actions()
    camera.shoot("command-palette")
    window.palettes.box.dismiss()
    window.docks.show_dock("notices")
    camera.shoot("notifications")
    window.docks.docks["notices"].hide()


def play(camera: Photographer, waiting: str) -> None:
    """A game, and its end; the run that waits for the whole machine must not stand before it."""
    window = camera.window
    camera.services.link.call("cancel", waiting)
    camera.reach(waiting, "TERM")
    window.show_layout("play")
    window.play.env.set_text("LunarLander-v3")
    camera.spin(3)
    window.play.begin()
    camera.until(lambda: window.play.game.view.image is not None, "the game")
    camera.shoot("play", wait_s=1.5)
    window.play.end()
    camera.reach(window.play.run_id, "TERM")


def without_daemon(camera: Photographer, home: Home) -> None:
    """What the window says when its daemon is gone."""
    camera.window.show_layout("train")
    with TrainerClient.connect(home) as client:
        client.shutdown("stop")
    camera.until(lambda: camera.services.link.state.name == "lost", "the daemon is gone")
    camera.shoot("no-daemon", wait_s=1)


def _stop_daemon(home: Home) -> None:
    try:
        with TrainerClient.connect(home) as client:
            client.shutdown("stop")
    except MosaicError:
        pass  # it was stopped for the last picture


def main() -> int:
    """Take all pictures; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=project_root() / "docs" / "screenshots")
    options = parser.parse_args()
    application = make_application()
    with tempfile.TemporaryDirectory(prefix="mosaic-pictures-") as folder:
        home = Home.locate(Path(folder) / "home")
        window = open_window(home)
        window.resize(*_SIZE)
        camera = Photographer(window, application, options.out)
        window._change_settings(theme="light")
        try:
            first_steps(camera)
            ids = train(camera, Path(folder))
            runs_and_tabs(camera, ids, "light")
            details(camera, ids)
            play(camera, ids["queued"])
            window._change_settings(theme="dark")
            runs_and_tabs(camera, ids, "dark")
            window._change_settings(theme="light")
            without_daemon(camera, home)
        finally:
            _stop_daemon(home)
            window.close()
            camera.spin(1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
