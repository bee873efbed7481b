"""`python stranger.py INVITATION FOLDER RUN RUN`: a window that cannot read the daemon's home.

`test_unreadable_home.py` starts it. It opens every tab of its runs, compares, clones, continues and
evaluates, and prints what it saw as one JSON object.
"""

import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

from support.patience import PATIENCE_S

os.environ["QT_QPA_PLATFORM"] = "offscreen"
# What TensorBoard serves is fetched directly: that the browser shows it is tested elsewhere.
os.environ["MOSAIC_NO_WEBENGINE"] = "1"

from conftest import Driver, config_of
from qtpy.QtWidgets import QApplication

from gym_gui.app import make_services
from gym_gui.main_window import MainWindow
from mosaic.config.paths import Home


def look_at_tabs(driver: Driver, run_id: str) -> dict[str, Any]:
    """What each tab of an ended training run says."""
    panel = driver.window.run_panel
    seen: dict[str, Any] = {}
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(run_id)
    driver.until(lambda: driver.services.selection.current == run_id, "selected")
    driver.until(lambda: "wandb" in panel.shown and "optuna" in panel.shown, "tabs of its files")
    panel.open_tab("overview")
    overview = panel.tab("overview")
    driver.until(lambda: overview.tiles["Return"].number != "—", "the return")
    panel.open_tab("charts")
    charts = panel.tab("charts")
    driver.until(lambda: charts.grid.complete and charts.grid.cards, "curves")
    seen["charts"] = len(charts.grid.cards)
    panel.open_tab("details")
    details = panel.tab("details")
    driver.until(lambda: "CartPole-v1" in details.config.toPlainText(), "the config")
    driver.until(lambda: details.events.rowCount() > 3, "the events")
    panel.open_tab("logs")
    logs = panel.tab("logs")
    driver.until(lambda: "lines" in logs.status, "the log")
    seen["logs"] = logs.status
    panel.open_tab("tensorboard")
    board = panel.tab("tensorboard")
    driver.until(lambda: board.web.address, "TensorBoard")
    with urllib.request.urlopen(
        board.web.address + "data/plugin/scalars/tags", timeout=PATIENCE_S
    ) as page:
        seen["tensorboard"] = len(json.load(page))
    panel.open_tab("replay")
    replay = panel.tab("replay")
    driver.until(lambda: replay.list.count(), "a video is listed")
    driver.until(lambda: replay.player.length > 3, "the video is decoded")
    seen["video"] = replay.player.length
    panel.open_tab("wandb")
    wandb = panel.tab("wandb")
    driver.until(lambda: wandb.table.rowCount() > 0, "W&B's numbers")
    names = [wandb.table.item(row, 0).text() for row in range(wandb.table.rowCount())]
    seen["wandb"] = "charts/return" in names
    panel.open_tab("optuna")
    optuna = panel.tab("optuna")
    driver.until(lambda: optuna.table.rowCount() > 0, "trials")
    seen["optuna"] = optuna.table.rowCount()
    panel.open_tab("live")
    driver.until(lambda: "has ended" in panel.tab("live").view.hint, "the live tab says so")
    return seen


def look_at_failure(driver: Driver) -> str:
    """The failure page of a run that crashed."""
    run_id = driver.submit(config_of("crash_at_the_end", "rogue", extras={}))
    driver.reaches(run_id, "TERM")
    driver.window.runs_panel.show_run(run_id)
    driver.window.run_panel.open_tab("failure")
    page = driver.window.run_panel.tab("failure")
    driver.until(lambda: "-m" in page.command.text(), "the command")
    return str(page.reason.text)


def look_at_frames(driver: Driver) -> int:
    """A live run: frames come over the network, a checkpoint is saved on request."""
    run_id = driver.submit(
        config_of("ppo", "cleanrl", env_id="CartPole-v1", total_timesteps=50_000_000, extras={})
    )
    driver.reaches(run_id, "EXEC")
    driver.window.runs_panel.show_run(run_id)
    driver.window.run_panel.open_tab("live")
    live = driver.window.run_panel.tab("live")
    driver.until(lambda: live.frames_shown >= 3, "frames")
    driver.until(lambda: driver.services.selection.current == run_id, "selected")
    driver.window.binder.trigger("run.save_checkpoint")
    driver.until(lambda: driver.run(run_id).newest_checkpoint("full"), "a checkpoint")
    driver.services.link.ask(lambda client: client.cancel(run_id))
    driver.reaches(run_id, "TERM")
    return int(live.frames_shown)


def compare(driver: Driver, run_ids: tuple[str, ...]) -> list[str]:
    """The settings in which two runs differ."""
    driver.services.selection.select(run_ids)
    driver.window.binder.trigger("analyse.diff")
    table = driver.window.compare.diff_page.table
    driver.until(lambda: table.rowCount() > 0, "differences")
    return [table.item(row, 0).text() for row in range(table.rowCount())]


def clone(driver: Driver, run_id: str) -> int:
    """The seed of the form after cloning."""
    form = driver.train_form()
    driver.window.runs_panel.show_run(run_id)
    driver.until(lambda: driver.services.selection.ids == (run_id,), "selected")
    driver.window.binder.trigger("run.clone")
    driver.until(lambda: form.seed.text() == "2", "the form is filled in")
    return int(form.seed.text())


def start_from(driver: Driver, run_id: str, action: str, kind: str, mode: str) -> str:
    """The outcome of a run that a form starts from another run."""
    driver.window.runs_panel.show_run(run_id)
    driver.until(lambda: driver.services.selection.ids == (run_id,), "selected")
    driver.window.binder.trigger(action)
    form = driver.window.launch.form(kind)
    driver.until(lambda: form.source.run_id == run_id, "the run is chosen")
    if kind == "resume":
        form.steps.set_value(6000)
    else:
        form.episodes.set_value(2)
    form.submit()
    store = driver.services.store

    def made() -> str:
        found = (run for run in store.runs.values() if run.mode == mode and run.version)
        return next((run.run_id for run in found if run.parent_run_id == run_id), "")

    started = str(driver.until(made, f"the run of {action}"))
    return str(driver.reaches(started, "TERM").outcome)


def main() -> None:
    """Look at everything and say what was seen."""
    invitation, folder, first, second = sys.argv[1:]
    application = QApplication(["stranger"])
    services = make_services(Home.locate(folder), addresses=[invitation])
    window = MainWindow(services)
    window.show()
    services.daemons.open()
    driver = Driver(window, application)
    driver.connected()
    run_dir = driver.run(second).run_dir
    seen: dict[str, Any] = {"home_is_hidden": not Path(run_dir).exists()}
    seen |= look_at_tabs(driver, second)
    seen["failure"] = look_at_failure(driver)
    seen["frames"] = look_at_frames(driver)
    seen["differences"] = compare(driver, (first, second))
    seen["cloned_seed"] = clone(driver, second)
    seen["resumed"] = start_from(driver, second, "run.continue", "resume", "resume_training")
    seen["evaluated"] = start_from(driver, second, "run.evaluate", "evaluate", "policy_eval")
    notices = services.notices.history
    # The run that was made to fail is reported as such; nothing else may be.
    seen["problems"] = [n.text for n in notices if n.tone == "danger" and not n.run_id]
    window.close()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
