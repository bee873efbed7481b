"""The run table as a person shapes it: columns, views, notes in place, groups, files."""

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QFileDialog, QInputDialog, QLineEdit

from gym_gui.models.run_columns import column_of, group_text
from gym_gui.models.run_csv import table_csv
from gym_gui.models.run_order import Group
from gym_gui.models.table_look import TableLook, decode_views, encode_views
from gym_gui.models.train_draft import TrainDraft
from gym_gui.panels.column_dialog import ColumnDialog
from mosaic.config.flat import flat_settings
from mosaic.presenting.run_filter import compile_filter
from mosaic.records import RunUpdated

from .conftest import Driver, config_of
from .test_models import record


def _ended(driver: Driver, name: str, **fields: Any) -> str:
    """A short run of the example worker, finished."""
    config = {**config_of(total_timesteps=2, extras={"step_ms": 1}), "run_name": name}
    config["metadata"]["worker"]["config"].update(fields)
    run_id = driver.submit(config)
    driver.reaches(run_id, "TERM")
    return run_id


# ---------------------------------------------------------------- without a window


def test_stored_views_come_back_and_broken_ones_are_named() -> None:
    """A view is stored whole; one that cannot be read costs a notice, not the others."""
    look = TableLook("algo:ppo", "return", False, True, (("name", 200), ("setting:gamma", 90)))
    stored = encode_views({"mine": look, "other": TableLook()})
    assert decode_views(stored) == ({"mine": look, "other": TableLook()}, "")
    stored["views"]["bad"] = {"columns": 5}
    views, notice = decode_views(stored)
    assert set(views) == {"mine", "other"}
    assert "'bad'" in notice
    for garbage in ("text", 5, [], {"version": 99, "views": {}}):
        assert decode_views(garbage)[0] == {}
        assert decode_views(garbage)[1]


def test_settings_are_found_by_their_plain_name_and_never_a_secret() -> None:
    """A config's values can be columns; its API key cannot."""
    draft = TrainDraft(params={"learning_rate": 0.01}, cpus=2, wall_minutes=5.0)
    draft.track_wandb, draft.wandb = True, {"wandb_api_key": "k" * 40}
    settings = flat_settings(draft.config(1).document())
    assert settings["learning_rate"] == 0.01
    assert (settings["cpus"], settings["max_minutes"]) == (2, 5.0)
    assert "wandb_api_key" not in settings
    assert "seed" not in settings


def test_groups_say_what_their_runs_have_in_common() -> None:
    """A group's row shows mean and spread of numbers, and words only when all agree."""
    rates = {"1": 0.1, "2": 0.3}
    column = column_of("setting:rate", lambda run, name: rates[run.run_id])
    runs = [record(run_id="1", metrics={"loss": 1.0}), record(run_id="2", metrics={"loss": 3.0})]
    assert group_text(column, runs) == "0.2 ± 0.14 SD"
    assert group_text(column_of("metric:loss", lambda run, name: None), runs) == "2 ± 1.4 SD"
    assert group_text(column_of("algo", lambda run, name: None), runs) == "ppo"
    runs[1] = record(run_id="2", algo="dqn")
    assert group_text(column_of("algo", lambda run, name: None), runs) == ""


def test_filter_compares_settings_and_metrics() -> None:
    """Any setting or metric is a field of the filter; unknown ones get a hint."""
    values = {"learning_rate": 0.001, "losses/value_loss": 2.0, "anneal_lr": True}
    run = record()

    def fits(text: str) -> bool:
        test = compile_filter(text, values, lambda _run, name: values[name])
        assert test is not None
        return test(run)

    assert fits("learning_rate<0.01")
    assert not fits("learning_rate>0.01")
    assert fits("losses/value_loss:2")
    assert fits("anneal_lr:true")
    assert fits("-learning_rate>1")


def test_csv_gives_whole_numbers_and_no_formulas() -> None:
    """A spreadsheet gets every digit, and a name that looks like a formula stays a name."""
    columns = [column_of(key, lambda run, name: None) for key in ("name", "return", "tags")]
    run = record(run_name="=1+1", metrics={"episodic_return": 1 / 3}, tags=("a", "b"))
    rows = list(csv.reader(io.StringIO(table_csv(columns, [run]))))
    assert rows[0] == ["run_id", "name", "return", "tags"]
    assert rows[1] == ["01A", "'=1+1", str(1 / 3), "a, b"]


# ---------------------------------------------------------------- in the window


def test_any_setting_or_metric_becomes_a_column(driver: Driver, trained: list[str]) -> None:
    """The column dialog finds a setting by typing; defaults show where nothing was given."""
    driver.window.binder.trigger("runs.columns")
    dialog = driver.until(lambda: driver.window.findChild(ColumnDialog), "the dialog")
    driver.until(lambda: "setting:learning_rate" in dialog.offered(), "settings were read")
    assert "metric:losses/value_loss" in dialog.offered()
    dialog.search.setText("learning rate")
    assert sum(not dialog.list.item(n).isHidden() for n in range(dialog.list.count())) == 1
    dialog.tick("setting:learning_rate")
    dialog.tick("metric:losses/value_loss")
    driver.until(lambda: driver.cell(trained[0], "setting:learning_rate") == "0.00025", "value")
    assert float(driver.cell(trained[0], "metric:losses/value_loss").replace(",", "")) > 0
    panel = driver.window.runs_panel
    keys = [column.key for column in panel.table.visible_columns()]
    assert keys.index("setting:learning_rate") == keys.index("return") + 1
    panel.show_run(trained[0])
    dialog.tick("setting:num_steps")
    assert panel.table.selectionModel().isRowSelected(panel.model.row_of(trained[0]))
    place = panel.model.place_of("setting:learning_rate")
    panel.table.sortByColumn(place, Qt.SortOrder.DescendingOrder)
    driver.spin(0.1)
    panel.filter.setText("learning_rate=0.00025 total_timesteps:4096")
    driver.until(lambda: {r.run_id for r in panel.model.runs_shown()} == set(trained), "filtered")
    dialog.close()
    panel.views.use("")


def test_a_run_is_shown_whatever_keys_are_held(driver: Driver, trained: list[str]) -> None:
    """A run that is looked up with Ctrl held down is selected, also when it was already."""
    panel = driver.window.runs_panel
    # Qt takes the modifiers of the last key for those that are held.
    QTest.keyClick(driver.window, Qt.Key.Key_F12, Qt.KeyboardModifier.ControlModifier)
    for run_id in (trained[0], trained[0], trained[1]):
        panel.show_run(run_id)
        assert driver.services.selection.ids == (run_id,)
        assert _highlighted(driver) == [run_id]


def _highlighted(driver: Driver) -> list[str]:
    panel = driver.window.runs_panel
    rows = sorted(index.row() for index in panel.table.selectionModel().selectedRows())
    return [panel.model.row_at(row).run_id for row in rows]


def test_view_is_saved_restored_and_deleted(
    open_window: Callable[..., Driver], trainer: Any
) -> None:
    """Filter, order, grouping and columns come back under their name, in another window too."""
    first = open_window(trainer.home)
    first.connected()
    panel = first.window.runs_panel
    panel.filter.setText("algo:darts")
    panel.table.toggle_column("why", False)
    panel.table.toggle_column("metric:sps", True)
    panel.table.sortByColumn(panel.model.place_of("name"), Qt.SortOrder.AscendingOrder)
    first.window.binder.trigger("runs.save_view")
    asked = first.until(lambda: first.window.findChild(QInputDialog), "the question")
    asked.setTextValue("darts only")
    asked.accept()
    first.until(lambda: panel.views.current == "darts only", "saved")
    look = panel.look()
    panel.views.use("")
    assert panel.filter.text() == ""
    assert "metric:sps" not in {column.key for column in panel.table.visible_columns()}
    panel.views.use("darts only")
    first.window.close()
    second = open_window(trainer.home)
    second.connected()
    again = second.window.runs_panel
    assert again.views.current == "darts only"
    assert again.look() == look
    second.window.binder.trigger("runs.views")
    QTest.keyClicks(second.window.command_palette.line, "default")
    QTest.keyClick(second.window.command_palette.line, Qt.Key.Key_Return)
    assert again.filter.text() == ""
    again.views.use("darts only")
    second.window.binder.trigger("runs.delete_view")
    assert not again.views.views


def test_tags_and_notes_are_edited_in_place(driver: Driver) -> None:
    """F2 on a cell edits it there; news about the run does not disturb what is being typed."""
    run_id = driver.submit(config_of())
    driver.reaches(run_id, "EXEC")
    panel = driver.window.runs_panel
    panel.show_run(run_id)
    for key, typed in (("tags", "fast, paper"), ("notes", "looks good"), ("name", "renamed")):
        index = panel.model.index(panel.model.row_of(run_id), panel.model.place_of(key))
        panel.table.setCurrentIndex(index)
        panel.table.setFocus()
        assert panel.table.edit_current()
        editor = driver.until(lambda: panel.table.findChild(QLineEdit), "an editor")
        editor.selectAll()
        QTest.keyClicks(editor, typed)
        step = driver.run(run_id).progress.step
        driver.until(lambda s=step: driver.run(run_id).progress.step > s, "news")
        assert editor.text() == typed
        QTest.keyClick(editor, Qt.Key.Key_Return)
        driver.until(lambda: panel.table.findChild(QLineEdit) is None, "the editor is gone")
    driver.until(lambda: driver.run(run_id).run_name == "renamed", "the daemon knows the name")
    assert driver.run(run_id).tags == ("fast", "paper")
    assert driver.run(run_id).notes == "looks good"


def test_completed_run_shows_all_of_its_progress(driver: Driver) -> None:
    """Completed is 100 %, also when the total is no multiple of the batch."""
    run_id = driver.submit(
        config_of("ppo", "cleanrl", env_id="CartPole-v1", total_timesteps=700, extras={})
    )
    driver.until(lambda: driver.run(run_id).state == "TERM", "it has ended", 60)
    assert driver.run(run_id).outcome == "completed"
    assert driver.run(run_id).progress.step < 700
    driver.until(lambda: driver.cell(run_id, "progress") == "100 %", "all of it")


def test_groups_are_of_runs_that_differ_in_their_seed_alone(driver: Driver) -> None:
    """Another setting is another group, with its own mean."""
    for seed in (1, 2):
        _ended(driver, "plain", env_id="group-test", seed=seed)
        _ended(driver, "other", env_id="group-test", seed=seed, extras={"step_ms": 2})
    panel = driver.window.runs_panel
    panel.filter.setText("env:group-test")
    driver.window.binder.actions["runs.group"].setChecked(True)
    driver.window.binder.trigger("runs.group")

    def groups() -> list[Group]:
        rows = (panel.model.row_at(place) for place in range(panel.model.rowCount()))
        return [row for row in rows if isinstance(row, Group)]

    driver.until(
        lambda: [sorted(run.seed for run in group.runs) for group in groups()] == [[1, 2]] * 2,
        "two groups of two seeds",
    )
    assert {group.title for group in groups()} == {"2 × plain", "2 × other"}
    driver.window.binder.actions["runs.group"].setChecked(False)
    panel.views.use("")


def test_columns_grow_with_the_text(driver: Driver) -> None:
    """Larger text has larger rows and columns; a view saved then fits at any size."""
    table = driver.window.runs_panel.table
    look, width, height = table.look(""), table.columnWidth(0), table.rowHeight(0)
    for _ in range(4):
        driver.window.binder.trigger("view.larger")
    driver.until(lambda: table.columnWidth(0) > width * 1.3, "wider columns")
    assert table.verticalHeader().defaultSectionSize() >= height
    bigger = table.look("")
    for _ in range(4):
        driver.window.binder.trigger("view.smaller")
    driver.until(lambda: table.columnWidth(0) == width, "as before")
    assert [key for key, _ in bigger.columns] == [key for key, _ in look.columns]
    pairs = zip(bigger.columns, look.columns, strict=True)
    assert all(abs(one - other) <= 1 for (_, one), (_, other) in pairs)


def test_table_is_exported_as_it_is_seen(driver: Driver, tmp_path: Any) -> None:
    """The CSV has the rows that fit the filter and the columns that are shown."""
    run_id = _ended(driver, "for the file", env_id="csv-test")
    panel = driver.window.runs_panel
    panel.filter.setText("env:csv-test")
    driver.until(lambda: panel.model.rowCount() == 1, "one row")
    driver.window.binder.trigger("runs.export_csv")
    dialog = driver.until(lambda: driver.window.findChild(QFileDialog), "the dialog")
    path = tmp_path / "runs.csv"
    dialog.fileSelected.emit(str(path))
    dialog.close()
    driver.until(lambda: path.exists() and path.read_text(), "the file")
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    assert [row["run_id"] for row in rows] == [run_id]
    assert rows[0]["name"] == "for the file"
    panel.filter.clear()


def test_ten_thousand_runs_with_chosen_columns_stay_quick(driver: Driver) -> None:
    """Columns of settings and metrics, groups and filters on them keep every slot short."""
    run_id = _ended(driver, "many")
    one = driver.run(run_id)
    store, panel = driver.services.store, driver.window.runs_panel
    for start in range(0, 10_000, 250):
        store.apply(
            RunUpdated(
                generation="many",
                sequence=n,
                run=replace(one, run_id=f"02{n:024d}", seed=n, created_at=float(n)),
            )
            for n in range(start, start + 250)
        )
        QApplication.processEvents()
    driver.until(lambda: panel.model.rowCount() >= 10_000, "all rows")
    panel.table.toggle_column("setting:total_timesteps", True)
    panel.table.toggle_column("metric:episodic_return", True)
    # The daemon knows one of them: its config comes although thousands are asked for with it.
    driver.until(lambda: driver.cell(run_id, "setting:total_timesteps") == "2", "read", 30)
    for key in ("setting:total_timesteps", "metric:episodic_return"):
        panel.table.sortByColumn(panel.model.place_of(key), Qt.SortOrder.AscendingOrder)
        assert panel.model.view.sort == key
    panel.filter.setText("total_timesteps:2 -name:nothing")
    driver.until(lambda: panel.model.rowCount() < 100, "filtered")
    assert panel.model.row_of(run_id) >= 0
    panel.filter.clear()
    driver.until(lambda: panel.model.rowCount() >= 10_000, "all again")
    panel.set_grouped(True)
    rows = [panel.model.row_at(row) for row in range(panel.model.rowCount())]
    # The daemon is shared, so runs of other tests may form small groups of their own.
    largest = max(len(row.runs) for row in rows if isinstance(row, Group))
    assert largest >= 9_999, "runs that differ in their seed alone are one group"
    panel.views.use("")
