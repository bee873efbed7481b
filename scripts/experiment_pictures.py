"""An experiment from an empty home, by mouse alone: the pictures of the guide.

Two algorithms with five seeds each are trained, watched, evaluated and compared with intervals.
`make screenshots` runs it, and so does a test of `make prove`: it ends with an error if a click has
not the effect that a person expects.
"""

import os
import sys

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("MOSAIC_SETTING_WARM_START", "false")

from mouse import Mouse
from photographer import Photographer, take_pictures
from qtpy.QtCore import QPoint

from gym_gui.forms.evaluate_form import EvaluateForm
from gym_gui.forms.train_form import TrainForm
from gym_gui.models.run_order import Group
from gym_gui.panels.results_page import ResultsPage
from gym_gui.tabs.live_tab import LiveTab

ALGORITHMS, SEEDS, STEPS = ("ppo", "pqn"), 5, "30k"
# Twenty runs one after the other, on a machine that has other things to do.
_LONG_S = 3000.0


def fill_in_the_form(camera: Photographer, mouse: Mouse) -> None:
    """Two algorithms, five seeds, and a number of steps from the menu beside the field."""
    window = camera.window
    camera.until(lambda: window.launch.actors and window.services.store.complete, "connected")
    form = window.launch.form("train")
    assert isinstance(form, TrainForm)
    camera.until(lambda: form.described == ALGORITHMS[0] and form.env.names, "the form")
    mouse.click(window.welcome.own)
    more = form.experiment.algos
    mouse.click(more)
    camera.until(more.popup.isVisible, "the list of algorithms")
    mouse.tick(more.list, ALGORITHMS[1])
    # A click beside the list closes it, as everywhere. In a corner: on a small screen the list
    # covers the middle.
    mouse.click(form.tabs, form.tabs.rect().bottomRight() - QPoint(15, 15))
    camera.until(lambda: not more.popup.isVisible(), "the list is closed")
    for opener, text in ((form.usual_steps, STEPS), (form.usual_seeds, str(SEEDS))):
        menu = opener.menu()
        assert menu is not None
        mouse.pick(opener, menu, text)
    count = len(ALGORITHMS) * SEEDS
    camera.until(lambda: form.bar.train.text() == f"Train {count} runs", "the count")
    camera.shoot("experiment-form")
    mouse.click(form.bar.train)
    camera.until(lambda: len(real_runs(camera)) == count, "every run is listed")


def real_runs(camera: Photographer) -> list[str]:
    """The runs that the daemon has confirmed."""
    return [run_id for run_id in camera.services.store.runs if not run_id.startswith("pending-")]


def row_of(camera: Photographer, kind: str) -> int:
    """The row of the experiment, or of its evaluations; -1 while there is none."""
    model = camera.window.runs_panel.model
    for place in range(model.rowCount()):
        row = model.row_at(place)
        if isinstance(row, Group) and row.key[1] == kind:
            return place
    return -1


def click_row(camera: Photographer, mouse: Mouse, kind: str) -> None:
    """Select all runs of the experiment, or all of its evaluations, with one click."""
    camera.until(lambda: row_of(camera, kind) >= 0, f"a row for the {kind}")
    table = camera.window.runs_panel.table
    mouse.click_cell(table, table.model().index(row_of(camera, kind), 0))
    count = len(ALGORITHMS) * SEEDS
    camera.until(lambda: len(camera.services.selection.ids) == count, f"{count} runs selected")


def all_ended(camera: Photographer, count: int) -> bool:
    """Whether so many runs are there and have ended."""
    runs = list(camera.services.store.runs.values())
    return len(runs) == count and all(run.ended for run in runs)


def watch(camera: Photographer, mouse: Mouse) -> None:
    """One row for the experiment; the agent of one of its runs at work."""
    window = camera.window
    mouse.menu_bar("Analyse", "Group by experiment")
    runs = camera.services.store.runs
    camera.until(lambda: any(run.is_running for run in runs.values()), "a run at work", _LONG_S)
    click_row(camera, mouse, "experiment")
    mouse.tool(window.binder.actions["view.watch"])
    camera.until(lambda: "live" in window.run_panel.shown, "the tabs of the run")
    mouse.tab(window.run_panel.tabs.tabBar(), "Live")
    live = window.run_panel.tab("live")
    assert isinstance(live, LiveTab)
    count = len(ALGORITHMS) * SEEDS

    def at_work() -> bool:
        run = camera.services.current_run()
        return live.frames_shown > 3 and run is not None and run.is_running

    # On a quick machine the run may be over before its first frame. The picture is taken at once:
    # half a second later the run may have ended.
    camera.until(lambda: at_work() or all_ended(camera, count), "frames", _LONG_S)
    camera.shoot("experiment-watch", wait_s=0.05)
    camera.until(lambda: all_ended(camera, count), "every run has ended", _LONG_S)


def evaluate(camera: Photographer, mouse: Mouse) -> None:
    """Every policy of the experiment in one press."""
    window, count = camera.window, len(ALGORITHMS) * SEEDS
    click_row(camera, mouse, "experiment")
    mouse.tool(window.binder.actions["run.evaluate"])
    form = window.launch.current_form
    assert isinstance(form, EvaluateForm)
    camera.until(lambda: form.start.text() == f"Evaluate {count} runs", "the form")
    camera.shoot("experiment-evaluate")
    mouse.click(form.start)
    camera.until(lambda: all_ended(camera, 2 * count), "every evaluation has ended", _LONG_S)


def compare(camera: Photographer, mouse: Mouse) -> None:
    """Curves with a band, then the table with intervals, of training and of evaluation."""
    window = camera.window
    click_row(camera, mouse, "experiment")
    mouse.tool(window.binder.actions["analyse.compare"])
    grid = window.compare.grid
    camera.until(grid.band.isVisible, "the charts")
    mouse.choose(grid.band, "Mean, 95 % CI")
    camera.curves(grid)
    camera.until(lambda: f"({SEEDS} seeds)" in grid.legend.text(), "the seeds are together")
    camera.shoot("experiment-curves", wait_s=1)
    mouse.tab(window.compare.tabs.tabBar(), "Results")
    _expect_intervals(camera, window.compare.results)
    camera.shoot("experiment-results", wait_s=1)
    before = window.compare.results.found
    click_row(camera, mouse, "evaluation")
    camera.until(lambda: window.compare.results.found not in (None, before), "the evaluations")
    _expect_intervals(camera, window.compare.results)
    camera.shoot("experiment-evaluated", wait_s=1)


def _expect_intervals(camera: Photographer, results: ResultsPage) -> None:
    camera.until(lambda: len(results.plot.rows) == len(ALGORITHMS), "a row for each algorithm")
    found = results.found
    assert found is not None
    assert sorted(cell.group for cell in found.cells) == sorted(ALGORITHMS)
    assert all(len(cell.runs) == SEEDS and cell.mean_interval for cell in found.cells)
    assert len(found.pairs) == 1


def act(camera: Photographer) -> None:
    """Go through the experiment."""
    mouse = Mouse(camera)
    for part in (fill_in_the_form, watch, evaluate, compare):
        part(camera, mouse)


if __name__ == "__main__":
    sys.exit(take_pictures(__file__, __doc__, act))
