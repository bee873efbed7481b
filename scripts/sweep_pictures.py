"""A sweep from an empty home, by mouse alone: the pictures of the guide.

A sweep with two seeds a trial, its study, the best settings trained with five fresh seeds, and a
report of it all. `make screenshots` runs it, and so does a test of `make prove`: it ends with an
error if a click has not the effect that a person expects.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("MOSAIC_SETTING_WARM_START", "false")

from experiment_pictures import real_runs, row_of
from mouse import Mouse
from photographer import Photographer, checkout_on_stage, take_pictures
from qtpy.QtWidgets import QDialogButtonBox, QFileDialog, QScrollArea

from gym_gui.forms.sweep_form import SweepForm

TRIALS, SEEDS, FRESH, STEPS = 5, 2, 5, "10k"
VARIED = ("learning_rate", "num_steps")
# Fifteen runs, on a machine that has other things to do.
_LONG_S = 3000.0


def fill_in_the_form(camera: Photographer, mouse: Mouse) -> SweepForm:
    """Steps, trials, seeds and slots from the menus beside the fields, two parameters by a tick."""
    window = camera.window
    camera.until(lambda: window.launch.actors and window.services.store.complete, "connected")
    mouse.click(window.welcome.own)
    mouse.tab(window.launch.tab_bar, "Sweep")
    form = window.launch.current_form
    assert isinstance(form, SweepForm)
    camera.until(lambda: form.ranges.ticks and form.env.names, "the form")
    wanted = {
        "Timesteps": STEPS,
        "Trials": str(TRIALS),
        "Seeds per trial": str(SEEDS),
        "At the same time": "2",
    }
    for field, text in wanted.items():
        opener = form.usual[field]
        mouse.pick(opener, opener.menu(), text)
    area = form.findChild(QScrollArea)
    assert area is not None
    for name in VARIED:
        # As a person turns the wheel until it is in sight.
        area.ensureWidgetVisible(form.ranges.ticks[name])
        mouse.click(form.ranges.ticks[name])
    camera.until(lambda: set(form.ranges.ticked()) == set(VARIED), "two parameters are ticked")
    camera.shoot("sweep-form")
    mouse.click(form.start)
    return form


def follow_the_study(camera: Photographer, mouse: Mouse) -> str:
    """The window turns to the study by itself; every trial ends, and Optuna draws them."""
    window = camera.window
    study = window.compare.study
    camera.until(study.isVisible, "the study is in front", _LONG_S)
    camera.until(lambda: study.search is not None, "the study is read", _LONG_S)
    camera.until(
        lambda: study.search is not None and len(study.search.complete) >= 4,
        "most trials have ended",
        _LONG_S,
    )
    count = TRIALS * SEEDS
    camera.until(lambda: len(real_runs(camera)) >= count - SEEDS, "runs", _LONG_S)
    camera.until(lambda: _all_ended(camera), "every run has ended", _LONG_S)
    camera.until(
        lambda: study.search is not None and len(study.search.trials) == TRIALS, "all", _LONG_S
    )
    camera.until(lambda: "Importances" in study.view.titles, "figures", _LONG_S)
    mouse.tab(study.view.figures.tabBar(), "Importances")
    camera.shoot("sweep-study", wait_s=1)
    return str(study.sweep_id)


def train_the_best(camera: Photographer, mouse: Mouse, sweep_id: str) -> None:
    """One press: five runs with seeds that the sweep has not seen."""
    window = camera.window
    mouse.click(window.compare.study.train_best)
    tag = f"experiment=best-{sweep_id}"
    runs = camera.services.store.runs
    camera.until(
        lambda: sum(tag in run.tags for run in runs.values()) == FRESH, "five runs", _LONG_S
    )
    camera.until(lambda: _all_ended(camera), "they have ended", _LONG_S)
    seeds = {run.seed for run in runs.values() if tag in run.tags}
    assert seeds == set(range(1 + SEEDS, 1 + SEEDS + FRESH)), seeds


def hand_over(camera: Photographer, mouse: Mouse, sweep_id: str) -> None:
    """The report of the sweep and of its best settings, from a button and a file dialog."""
    window = camera.window
    mouse.menu_bar("Analyse", "Group by experiment")
    camera.until(lambda: row_of(camera, "sweep") >= 0, "a row for the sweep")
    table = window.runs_panel.table
    mouse.click_cell(table, table.model().index(row_of(camera, "experiment"), 0))
    mouse.tab(window.compare.tabs.tabBar(), "Results")
    results = window.compare.results
    camera.until(lambda: results.found is not None and len(results.found.cells) == 1, "results")
    assert results.found is not None
    assert len(results.found.cells[0].runs) == FRESH
    camera.shoot("sweep-best", wait_s=1)
    mouse.click_cell(table, table.model().index(row_of(camera, "sweep"), 0))
    mouse.tab(window.compare.tabs.tabBar(), "Study")
    mouse.click(window.compare.study.report)
    dialog = camera.until(lambda: window.findChild(QFileDialog), "the dialog")
    buttons = dialog.findChild(QDialogButtonBox)
    mouse.click(buttons.button(QDialogButtonBox.StandardButton.Save))
    page = checkout_on_stage() / f"report-{sweep_id}.html"
    camera.until(page.exists, "the page", _LONG_S)
    text = page.read_text()
    assert f"Training: best-{sweep_id}" in text
    assert "Importance of the parameters" in text
    photograph(page, camera.folder / "sweep-report.png")
    print("sweep-report", flush=True)


def photograph(page: Path, target: Path) -> None:
    """The page as a browser shows it, without a network."""
    from playwright.sync_api import sync_playwright

    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=quiet)
        shown = browser.new_page(viewport={"width": 1100, "height": 1250})
        shown.goto(page.as_uri())
        shown.screenshot(path=str(target))
        browser.close()


def _all_ended(camera: Photographer) -> bool:
    return all(run.ended for run in camera.services.store.runs.values())


def act(camera: Photographer) -> None:
    """Go through the sweep."""
    mouse = Mouse(camera)
    fill_in_the_form(camera, mouse)
    sweep_id = follow_the_study(camera, mouse)
    train_the_best(camera, mouse, sweep_id)
    hand_over(camera, mouse, sweep_id)


if __name__ == "__main__":
    sys.exit(take_pictures(__file__, __doc__, act))
