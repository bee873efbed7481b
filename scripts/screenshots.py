"""Pictures of every window, dialog, tab, theme and empty state, made from real runs.

`make screenshots` runs it. It starts a daemon on a home of its own, trains, evaluates and plays,
drives the window through everything there is to see, and writes PNG files.
"""

import os
import sys

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("MOSAIC_SETTING_WARM_START", "false")

from photographer import Photographer, checkout_on_stage, take_pictures
from picture_runs import evaluate, keep_going, sweep, train

from mosaic.client import TrainerClient
from mosaic.config.paths import Home


def first_steps(camera: Photographer) -> None:
    """An empty workbench, its form, its dialogs."""
    window = camera.window
    camera.until(lambda: window.launch.actors and window.services.store.complete, "connected")
    form = window.launch.form("train")
    camera.until(lambda: form.described and form.env.names, "the form")
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


def empty_states(camera: Photographer, theme: str) -> None:
    """What each layout says while there is nothing to show."""
    camera.theme(theme)
    for layout in ("watch", "analyse", "play"):
        camera.window.show_layout(layout)
        camera.shoot(f"empty-{layout}-{theme}", wait_s=1.0)
    camera.window.show_layout("train")


def dialogs(camera: Photographer, theme: str) -> None:
    """The dialogs that need no run."""
    camera.theme(theme)
    camera.window.binder.trigger("app.settings")
    camera.shoot_dialog(f"settings-{theme}")
    camera.window.binder.trigger("app.shortcuts")
    camera.shoot_dialog(f"shortcuts-{theme}")


def runs_and_tabs(camera: Photographer, ids: dict[str, str], theme: str) -> None:
    """The tabs people look at most, in a theme."""
    window = camera.window
    camera.theme(theme)
    live = camera.show(ids["live"], "live")
    camera.until(lambda: live.frames_shown > 5, "frames")
    camera.shoot(f"live-{theme}", wait_s=2)
    camera.show(ids["live"], "overview", "train")
    camera.shoot(f"train-{theme}", wait_s=1.5)
    charts = camera.show(ids["seed1"], "charts")
    camera.curves(charts.grid)
    camera.shoot(f"charts-{theme}", wait_s=1)
    camera.services.selection.select((ids["seed1"], ids["seed2"], ids["dqn"]))
    window.binder.trigger("analyse.compare")
    camera.curves(window.compare.grid)
    camera.shoot(f"compare-{theme}", wait_s=1)
    camera.services.selection.select(tuple(ids[f"seed{seed}"] for seed in (1, 2, 3)))
    window.compare.grid.band.setCurrentIndex(1)
    camera.curves(window.compare.grid)
    camera.shoot(f"compare-band-{theme}", wait_s=1)
    window.compare.grid.band.setCurrentIndex(0)
    window.compare.show_diff()
    camera.shoot(f"config-differences-{theme}", wait_s=1.5)
    window.compare.tabs.setCurrentIndex(0)
    logs = camera.show(ids["failed"], "logs")
    camera.until(lambda: "frames)" in logs.text.toPlainText(), "the traceback")
    camera.shoot(f"logs-{theme}")
    logs.text.first_error()
    logs.text.toggle(logs.text.textCursor().block())
    camera.shoot(f"logs-traceback-{theme}")
    camera.show(ids["failed"], "failure")
    camera.shoot(f"failure-{theme}", wait_s=1)
    camera.show(ids["spade"], "telemetry")
    camera.shoot(f"telemetry-{theme}", wait_s=3)
    window.show_layout("analyse")
    window.runs_panel.show_run(ids["sweep"])
    window.compare.show_study()
    camera.until(lambda: window.compare.study.view.titles, "the figures of the study")
    camera.shoot(f"study-{theme}", wait_s=1.5)
    window.compare.tabs.setCurrentIndex(0)


def forms_with_runs(camera: Photographer, ids: dict[str, str]) -> None:
    """The forms that begin with a run or a file."""
    window = camera.window
    window.runs_panel.show_run(ids["seed1"])
    for kind in ("resume", "evaluate"):
        form = window.launch.show_form(kind, "cleanrl")
        window.show_layout("train")
        form.restore({"run_id": ids["seed1"]})
        camera.shoot(f"form-{kind}")
    window.launch.show_form("train", "cleanrl")


def details(camera: Photographer, ids: dict[str, str]) -> None:
    """The tabs that need one picture."""
    board = camera.show(ids["seed1"], "tensorboard")
    camera.until(lambda: board.web.address, "TensorBoard")
    camera.shoot("tensorboard", wait_s=9)
    for run, tab in (("wandb", "wandb"), ("seed1", "details"), ("spade", "replay")):
        camera.show(ids[run], tab)
        camera.shoot(f"{tab}-{run}" if tab == "replay" else tab, wait_s=3)
    logs = camera.show(ids["script"], "logs")
    logs.lifecycle.setChecked(True)
    camera.shoot("logs-lifecycle", wait_s=1.5)
    logs.lifecycle.setChecked(False)
    replay = camera.show(ids["eval"], "replay")
    camera.until(lambda: replay.player.slider.maximum() > 3, "the video")
    replay.player.slider.setValue(20)
    camera.shoot("replay-video")
    camera.show(ids["eval"], "live")
    camera.shoot("live-ended", wait_s=1)


def the_table(camera: Photographer, ids: dict[str, str]) -> None:
    """What the run table can do, and what lies over the window."""
    window = camera.window
    camera.show(ids["queued"], "overview", "train")
    camera.shoot("queued-with-reason")
    window.binder.actions["runs.group"].trigger()
    window.show_layout("watch")
    camera.shoot("grouped-by-seed")
    window.binder.actions["runs.group"].trigger()
    window.runs_panel.filter.setText("alog:ppo")
    camera.shoot("filter-with-hint")
    window.runs_panel.filter.clear()
    window.binder.trigger("app.palette")
    camera.shoot("command-palette")
    camera.leave_palette()
    window.binder.trigger("app.find")
    camera.shoot("finder")
    camera.leave_palette()
    window.docks.show_dock("notices")
    camera.shoot("notifications")
    window.docks.docks["notices"].hide()
    window.runs_panel.show_run(ids["live"])
    camera.until(lambda: camera.services.selection.current == ids["live"], "the live run")
    window.binder.trigger("run.cancel")
    camera.shoot_dialog("cancel-question")
    window.binder.trigger("run.tags")
    camera.shoot_dialog("edit-run")
    window.binder.trigger("runs.columns")
    camera.shoot_dialog("choose-columns")


def play(camera: Photographer, waiting: str) -> None:
    """A game, and its end; the run that waits for the whole machine must not stand before it."""
    window = camera.window
    camera.services.link.ask(lambda client: client.cancel(waiting))
    camera.reach(waiting, "TERM")
    window.show_layout("play")
    window.play.env.set_text("LunarLander-v3")
    camera.until(lambda: window.play.options.editor("gravity") is not None, "its settings")
    window.play.begin()
    camera.until(lambda: window.play.game.view.image is not None, "the game")
    camera.shoot("play", wait_s=1.5)
    window.play.end()
    camera.reach(window.play.run_id, "TERM")


def without_daemon(camera: Photographer, home: Home, run_id: str) -> None:
    """What the window says when its daemon is gone."""
    camera.show(run_id, "overview", "train")
    with TrainerClient.connect(home) as client:
        client.shutdown("stop")
    camera.until(lambda: camera.services.link.state.name == "lost", "the daemon is gone")
    camera.shoot("no-daemon", wait_s=1)


def act(camera: Photographer) -> None:
    """Take all pictures."""
    first_steps(camera)
    for theme in ("dark", "light"):
        empty_states(camera, theme)
        dialogs(camera, theme)
    ids = train(camera, checkout_on_stage())
    sweep(camera, ids)
    evaluate(camera, ids)
    keep_going(camera, ids)
    runs_and_tabs(camera, ids, "light")
    forms_with_runs(camera, ids)
    details(camera, ids)
    the_table(camera, ids)
    play(camera, ids["queued"])
    runs_and_tabs(camera, ids, "dark")
    camera.theme("light")
    without_daemon(camera, Home.locate(), ids["seed1"])


if __name__ == "__main__":
    sys.exit(take_pictures(__file__, __doc__, act, publishes=True))
