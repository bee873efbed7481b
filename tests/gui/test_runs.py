"""The run table, its actions, its tabs: a real window on a real daemon with real workers."""

import json
import zipfile
from pathlib import Path

from qtpy.QtCore import Qt
from qtpy.QtGui import QGuiApplication
from qtpy.QtTest import QTest

from gym_gui.actions.action import Context
from gym_gui.background.support_bundle import write_bundle
from gym_gui.models.run_columns import BY_KEY
from gym_gui.models.series import smooth

from .conftest import Driver, config_of


def _shows(driver: Driver, run_id: str, column: str, text: str) -> None:
    """Wait until a cell of the table says something."""
    model = driver.window.runs_panel.model

    def cell() -> str:
        return str(model.index(model.row_of(run_id), BY_KEY[column]).data())

    driver.until(lambda: cell() == text, f"{column} shows {text}, not {cell()}")


def test_actions_say_when_they_make_sense(driver: Driver) -> None:
    """What needs a run is off without one, and what the daemon does is off without a daemon."""
    run_id = driver.submit(config_of())
    run = driver.reaches(run_id, "EXEC")
    actions = driver.window.binder.catalog.values()

    def enabled(context: Context) -> set[str]:
        return {action.id for action in actions if action.enabled(context)}

    needs_run = {"run.pause", "run.cancel", "run.delete", "run.clone", "analyse.diff"}
    assert not enabled(Context(connected=True)) & needs_run
    assert {"run.pause", "run.cancel"} <= enabled(Context(connected=True, selected=(run,)))
    assert "run.delete" not in enabled(Context(connected=True, selected=(run,)))
    assert not enabled(Context(selected=(run,))) & {"run.pause", "run.submit", "run.import"}


def test_switches_in_the_palette_really_switch(driver: Driver) -> None:
    """A switch chosen by name changes what a click on it would change, and back."""
    binder, panel = driver.window.binder, driver.window.runs_panel
    for grouped in (True, False):
        binder.trigger("runs.group")
        assert panel.model.view.grouped is grouped
        assert binder.actions["runs.group"].isChecked() is grouped
    for locked in (True, False):
        binder.trigger("view.lock")
        assert driver.services.settings.lock_docks is locked
        assert binder.actions["view.lock"].isChecked() is locked


def test_run_is_steered_from_the_table(driver: Driver) -> None:
    """A run is paused, resumed and cancelled by its actions; the table shows each state."""
    run_id = driver.submit(config_of())
    driver.reaches(run_id, "EXEC")
    driver.window.runs_panel.show_run(run_id)
    _shows(driver, run_id, "state", "Running")
    driver.window.binder.trigger("run.pause")
    driver.reaches(run_id, "PAUSE")
    _shows(driver, run_id, "state", "Paused")
    driver.window.binder.trigger("run.resume")
    driver.reaches(run_id, "EXEC")
    driver.services.link.ask(lambda client: client.cancel(run_id))
    assert driver.reaches(run_id, "TERM").outcome == "cancelled"
    _shows(driver, run_id, "state", "Cancelled")
    texts = [notice.text for notice in driver.services.notices.history]
    assert any("cancelled" in text for text in texts)


def test_cancel_asks_first_and_says_what_is_lost(driver: Driver) -> None:
    """Only killing a running job asks, and the question says how long it ran."""
    run_id = driver.submit(config_of())
    driver.reaches(run_id, "EXEC")
    driver.window.runs_panel.show_run(run_id)
    driver.window.binder.trigger("run.cancel")
    from qtpy.QtWidgets import QMessageBox

    box = driver.until(lambda: driver.window.findChild(QMessageBox), "the question")
    assert "of training" in box.text()
    stop = next(button for button in box.buttons() if button.text() == "Stop")
    stop.click()
    assert driver.reaches(run_id, "TERM").outcome == "cancelled"


def test_deleted_run_leaves_its_open_tab_and_comes_back(driver: Driver) -> None:
    """Deleting needs no question because it can be taken back; an open tab says what happened."""
    run_id = driver.submit(config_of(total_timesteps=3, extras={"step_ms": 1}))
    driver.reaches(run_id, "TERM")
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(run_id)
    driver.window.run_panel.open_tab("logs")
    driver.window.binder.trigger("run.delete")
    driver.until(lambda: run_id not in driver.services.store.runs, "the run is gone")
    driver.spin(0.2)
    assert driver.window.run_panel.isVisible()
    driver.window.binder.trigger("run.undo_delete")
    driver.until(lambda: run_id in driver.services.store.runs, "the run is back")
    # What is shown last no longer offers to undo it.
    driver.until(lambda: driver.services.notices.history[-1].text.startswith("Restored"), "said")


def test_filter_group_and_sort(driver: Driver) -> None:
    """The table shows what fits, gathers seeds, and says what is wrong with a filter."""
    short = {"total_timesteps": 3, "extras": {"step_ms": 1}}
    ids = [driver.submit(config_of(seed=seed, **short)) for seed in (11, 12)]
    for run_id in ids:
        driver.reaches(run_id, "TERM")
    panel = driver.window.runs_panel
    panel.filter.setText("seed:11")
    driver.until(lambda: len(panel.model.runs_shown()) == 1, "one run fits")
    panel.filter.setText("sede:11")
    driver.until(lambda: "did you mean 'seed'" in panel.filter_problem, "the hint")
    panel.filter.clear()
    driver.until(lambda: panel.model.row_of(ids[1]) >= 0, "all runs")
    driver.window.binder.actions["runs.group"].trigger()
    driver.until(lambda: panel.model.rowCount() > len(panel.model.runs_shown()), "groups")
    driver.window.binder.actions["runs.group"].trigger()


def test_palette_does_what_is_typed(driver: Driver, qapp: object) -> None:
    """Ctrl+Shift+P, a few letters and Return do anything; Escape does nothing."""
    window = driver.window
    window.binder.trigger("app.palette")
    assert window.command_palette.isVisible()
    QTest.keyClicks(window.command_palette.line, "layout watch")
    QTest.keyClick(window.command_palette.line, Qt.Key.Key_Return)
    driver.until(lambda: window.docks.current == "watch", "the layout")
    window.binder.trigger("app.palette")
    QTest.keyClick(window.command_palette.line, Qt.Key.Key_Escape)
    assert not window.command_palette.isVisible()


def test_finder_goes_to_a_run(driver: Driver) -> None:
    """Ctrl+P finds a run by its name."""
    config = {**config_of(total_timesteps=2, extras={"step_ms": 1}), "run_name": "needle"}
    run_id = driver.submit(config)
    driver.reaches(run_id, "TERM")
    driver.window.binder.trigger("app.find")
    QTest.keyClicks(driver.window.command_palette.line, "needle")
    QTest.keyClick(driver.window.command_palette.line, Qt.Key.Key_Return)
    driver.until(lambda: driver.services.selection.current == run_id, "the run is selected")


def test_tags_and_notes_are_kept_by_the_daemon(driver: Driver) -> None:
    """What people write about a run is stored with it, not in the window."""
    run_id = driver.submit(config_of(total_timesteps=2, extras={"step_ms": 1}))
    driver.reaches(run_id, "TERM")
    driver.window.runs.update(run_id, run_name="renamed", notes="remember", tags=["paper"])
    driver.until(lambda: driver.run(run_id).tags == ("paper",), "the tag")
    assert driver.run(run_id).notes == "remember"
    _shows(driver, run_id, "name", "renamed")


def test_curve_grows_while_the_run_runs(driver: Driver) -> None:
    """The overview's chart gains points from a live run without being asked again."""
    run_id = driver.submit(config_of())
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(run_id)
    driver.window.run_panel.open_tab("overview")
    chart = driver.window.run_panel.tab("overview").chart
    driver.until(lambda: chart.points_shown() >= 2, "a curve")
    before = chart.points_shown()
    driver.until(lambda: chart.points_shown() > before, "a longer curve")
    driver.services.link.ask(lambda client: client.cancel(run_id))
    driver.reaches(run_id, "TERM")


def test_compare_shows_curves_and_differences(
    driver: Driver, trained: list[str], tmp_path: Path
) -> None:
    """Two runs are drawn over each other, and their configs differ where they differ."""
    ids = trained
    driver.services.selection.select(tuple(ids))
    driver.window.binder.trigger("analyse.compare")
    compare = driver.window.compare
    driver.until(lambda: compare.grid.cards, "charts")
    card = next(iter(compare.grid.cards.values()))
    driver.until(lambda: len(card.chart.curves_shown()) == 2, "two curves")
    card.save_csv(tmp_path / "curves.csv")
    assert (tmp_path / "curves.csv").read_text().startswith("run,step,value")
    compare.show_diff()
    table = compare.diff_page.table
    driver.until(lambda: table.rowCount() >= 1, "differences")
    assert table.item(0, 0).text() == "seed"
    driver.window.binder.trigger("run.copy_id")
    assert set(QGuiApplication.clipboard().text().split()) == set(ids)


def test_charts_smooth_search_and_switch_scale(driver: Driver, trained: list[str]) -> None:
    """Every curve has a chart; search narrows them, smoothing and log scale redraw them."""
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(trained[0])
    driver.window.run_panel.open_tab("charts")
    grid = driver.window.run_panel.tab("charts").grid
    driver.until(lambda: "losses/value_loss" in grid.cards, "charts")
    first = grid.cards["charts/episodic_return"].chart
    driver.until(lambda: first.points_shown() > 2, "points")
    grid.search.setText("losses/")
    driver.until(lambda: not grid.cards["charts/episodic_return"].isVisible(), "narrowed")
    grid.search.clear()
    driver.until(lambda: grid.cards["charts/episodic_return"].isVisible(), "all again")
    curve = driver.services.feeds.curves(trained[0])["charts/episodic_return"]

    def drawn() -> tuple[list[float], list[float]]:
        x, y = first.curves_shown()[trained[0]]
        return x.tolist(), y.tolist()

    grid.smoothing.setValue(90)
    smoothed = smooth(curve.values, 0.9).tolist()
    driver.until(lambda: drawn()[1] == smoothed, "the smoothed curve is drawn")
    assert smoothed != curve.values.tolist()
    grid.smoothing.setValue(0)
    driver.until(lambda: drawn()[1] == curve.values.tolist(), "what was measured is drawn")
    assert drawn()[0] == curve.steps.tolist()
    assert first.axes_shown == ("steps", False)
    grid.log.setChecked(True)
    driver.until(lambda: first.axes_shown == ("steps", True), "a log scale")
    grid.time.setChecked(True)
    driver.until(lambda: first.axes_shown == ("time", True), "over time")
    seconds = (curve.walls - curve.walls[0]).tolist()
    driver.until(lambda: drawn()[0] == seconds, "drawn over the seconds since the first point")


def test_logs_are_followed_and_searched(driver: Driver) -> None:
    """The log shows lifecycle lines on demand and finds lines by a regular expression."""
    run_id = driver.submit(config_of(total_timesteps=40, extras={"step_ms": 20}))
    driver.reaches(run_id, "TERM")
    driver.window.runs_panel.show_run(run_id)
    driver.window.binder.trigger("analyse.logs")
    logs = driver.window.run_panel.tab("logs")
    logs.lifecycle.setChecked(True)
    driver.until(lambda: "run_completed" in logs.text.toPlainText(), "the last line")
    logs.search.setText("run_(started|completed)")
    logs.restart()
    driver.until(lambda: "2 lines" in logs.status, "two hits")
    logs.search.setText("(")
    logs.restart()
    assert "Not a regular expression" in logs.status


def test_failed_run_explains_itself(driver: Driver, tmp_path: Path) -> None:
    """The failure page has the reason, the command and the last lines, and retries."""
    run_id = driver.submit(config_of("crash_at_the_end", "rogue", extras={}))
    failed = driver.reaches(run_id, "TERM")
    assert failed.outcome == "failed"
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(run_id)
    driver.window.run_panel.open_tab("failure")
    page = driver.window.run_panel.tab("failure")
    driver.until(lambda: "-m" in page.command.text(), "the command")
    assert page.reason.text.startswith("Failed")
    bundle = tmp_path / "bundle.zip"
    counts: list[object] = []
    driver.services.link.ask(
        lambda client: write_bundle(client, run_id, bundle), counts.append, counts.append
    )
    assert driver.until(lambda: counts, "the bundle")[0] >= 4
    with zipfile.ZipFile(bundle) as packed:
        assert {"config.json", "events.jsonl", "exit.json"} <= set(packed.namelist())
    page.action_wanted.emit("run.retry")
    driver.until(
        lambda: any(r.parent_run_id == run_id for r in driver.services.store.runs.values()),
        "the retry",
    )


def test_details_show_config_and_events(driver: Driver) -> None:
    """The details tab holds the config as submitted and every event."""
    run_id = driver.submit(config_of(total_timesteps=2, extras={"step_ms": 1}))
    driver.reaches(run_id, "TERM")
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(run_id)
    driver.window.run_panel.open_tab("details")
    tab = driver.window.run_panel.tab("details")
    driver.until(lambda: tab.events.rowCount() > 3, "events")
    driver.until(lambda: tab.config.toPlainText(), "the config")
    assert json.loads(tab.config.toPlainText())["metadata"]["worker"]["type"] == "example"


def test_theme_and_text_size_change_everything_at_once(driver: Driver) -> None:
    """Light and dark, larger and smaller take effect without a restart and are remembered."""
    before = driver.services.themes.theme.name
    driver.window.binder.trigger("view.theme")
    assert driver.services.themes.theme.name != before
    points = driver.services.settings.font_points
    driver.window.binder.trigger("view.larger")
    assert driver.services.settings.font_points == points + 1
    path = driver.services.link.home.root / "gui" / "settings.json"
    driver.until(lambda: path.exists() and "font_points" in path.read_text(), "stored")
    driver.window.binder.trigger("view.smaller")
    driver.window.binder.trigger("view.theme")
