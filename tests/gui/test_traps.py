"""What a person may do by accident: nothing of it reaches another run or loses what was meant."""

from collections.abc import Iterator

import pytest
from qtpy.QtCore import QEvent, Qt
from qtpy.QtGui import QKeyEvent
from qtpy.QtWidgets import QApplication
from support.trainer import Trainer

from gym_gui.forms.base import NumberLine
from gym_gui.forms.registry import EVALUATE, RESUME, TRAIN
from gym_gui.forms.resume_form import ResumeForm
from gym_gui.models.launch import Launch
from gym_gui.models.run_columns import BY_KEY, COLUMNS, group_text
from gym_gui.models.train_draft import TrainDraft
from mosaic.config import build

from .conftest import Driver
from .test_models import record


@pytest.fixture
def filtered(driver: Driver) -> Iterator[Driver]:
    """A window whose filter shows the trained runs and hides any other."""
    panel = driver.window.runs_panel
    panel.filter.setText("algo:ppo")
    panel.model.set_filter("algo:ppo")
    yield driver
    panel.filter.clear()
    panel.model.set_filter("")


def test_a_command_never_reaches_a_run_that_the_filter_hides(
    filtered: Driver, trained: list[str], shared_trainer: Trainer
) -> None:
    """A run that is started behind a filter is not selected; a notice brings it to the front."""
    window, selection = filtered.window, filtered.services.selection
    window.runs_panel.show_run(trained[0])
    said: list[str] = []
    filtered.services.notices.said.connect(lambda notice: said.append(notice.text))
    config = build.train(build.Worker("example", declares=False), "darts", total_timesteps=20)
    window.runs.submit([Launch(config)])
    filtered.until(lambda: any("The filter hides" in text for text in said), "the notice")
    hidden = next(
        run.run_id for run in filtered.services.store.runs.values() if run.algo == "darts"
    )
    table = window.runs_panel.table.selectionModel()
    assert hidden not in selection.ids
    assert bool(selection.ids) == bool(table.selectedRows())
    window.runs_panel.show_run(hidden)
    filtered.until(lambda: selection.ids == (hidden,), "shown on request")
    shared_trainer.ended(hidden)
    shared_trainer.client.delete(hidden, purge=True)
    filtered.until(lambda: filtered.services.store.get(hidden) is None, "gone")


def test_a_run_that_was_just_started_stays_selected(
    driver: Driver, shared_trainer: Trainer
) -> None:
    """Press Train and the new run is the one the window shows, also once its row has come."""
    window, selection = driver.window, driver.services.selection
    config = build.train(build.Worker("example", declares=False), "darts", total_timesteps=20)
    window.runs.submit([Launch(config)])
    driver.until(lambda: selection.current.startswith("01"), "the daemon has named it")
    started = selection.current
    panel = window.runs_panel
    driver.until(lambda: panel.model.row_of(started) >= 0, "its row")
    driver.reaches(started, "TERM")
    driver.spin(0.2)
    rows = panel.table.selectionModel().selectedRows()
    assert [panel.model.row_at(row.row()).run_id for row in rows] == [started]
    assert selection.ids == (started,)
    shared_trainer.client.delete(started, purge=True)
    driver.until(lambda: driver.services.store.get(started) is None, "gone")


def test_the_first_steps_never_keep_the_table_away(driver: Driver, trained: list[str]) -> None:
    """They say how many runs there are, and a button or any layout brings the table back."""
    window = driver.window
    for leave in (window.welcome.back.click, lambda: window.show_layout("train")):
        window.show_welcome()
        driver.until(lambda: window.welcome.isVisible(), "the first steps")
        assert window.welcome.back.isVisible()
        leave()
        driver.until(lambda: window.runs_panel.table.isVisible(), "the table")


@pytest.mark.parametrize("key", [Qt.Key.Key_E, Qt.Key.Key_U, Qt.Key.Key_K], ids=["E", "U", "K"])
def test_a_shortcut_works_while_the_filter_has_the_focus(driver: Driver, key: Qt.Key) -> None:
    """Ctrl+E evaluates, Ctrl+U resumes, Ctrl+K cancels; none of them edits the filter."""
    for line in (driver.window.runs_panel.filter, driver.window.launch.findChild(NumberLine)):
        event = QKeyEvent(
            QEvent.Type.ShortcutOverride, key, Qt.KeyboardModifier.ControlModifier, ""
        )
        QApplication.sendEvent(line, event)
        assert not event.isAccepted(), "the window gets the key"
    copy = QKeyEvent(
        QEvent.Type.ShortcutOverride, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier, ""
    )
    QApplication.sendEvent(driver.window.runs_panel.filter, copy)
    assert copy.isAccepted(), "copying stays the field's own"


def test_a_layout_puts_the_focus_into_the_table(driver: Driver, trained: list[str]) -> None:
    """Not into the filter, where the next key would be taken for a word."""
    table = driver.window.runs_panel.table
    # Before the runs have come the first steps are in the table's place.
    driver.until(lambda: driver.window.runs_panel.model.row_of(trained[0]) >= 0, "the runs")
    for layout in ("watch", "train"):
        driver.window.show_layout(layout)
        assert driver.window.focusWidget() is table


def test_a_finished_run_continues_only_with_a_larger_total(
    driver: Driver, trained: list[str]
) -> None:
    """Twice the total is offered; what is done already cannot be asked for again."""
    form = driver.window.launch.show_form(RESUME, "cleanrl")
    assert isinstance(form, ResumeForm)
    form.steps.clear()
    form.restore({"run_id": trained[0]})
    driver.until(lambda: form.source.run_id == trained[0], "the run")
    assert form.steps.text() == "8192"
    assert form.start.isEnabled()
    form.steps.setText("4096")
    assert not form.start.isEnabled()
    assert "larger total" in form.start.toolTip()
    form.steps.clear()
    assert not form.start.isEnabled()
    driver.window.launch.show_form(TRAIN, "cleanrl")


def test_a_continued_run_is_edited_in_the_form_that_made_it(
    driver: Driver, trained: list[str], shared_trainer: Trainer
) -> None:
    """Its clone continues from the same run; the train form never carries a hidden checkpoint."""
    client, launch = shared_trainer.client, driver.window.launch
    before = build.read_config(client.config(trained[0]))
    config = build.resume(before, client.get(trained[0]), total_timesteps=9000)
    driver.window.forms.load_config(config, trained[0])
    form = launch.current_form
    assert isinstance(form, ResumeForm)
    assert (form.source.run_id, form.steps.text()) == (trained[0], "9000")
    judged = build.evaluate(client.get(trained[0]), episodes=7)
    driver.window.forms.load_config(judged, trained[0])
    assert launch.current_form is launch.form(EVALUATE, "cleanrl")
    driver.window.forms.load_config(before)
    assert launch.current_form is launch.form(TRAIN, "cleanrl")


@pytest.mark.parametrize(
    ("text", "number"), [("30k", 30_000), ("1.5M", 1_500_000), ("3e4", 30_000), ("30,000", 30_000)]
)
def test_numbers_are_read_as_people_write_them(qapp: object, text: str, number: int) -> None:
    """30k and 1.5M are numbers of steps; a wrong one is told without a limit nobody reaches."""
    line = NumberLine("Timesteps")
    line.setText(text)
    assert line.value() == number
    line.setText("many")
    assert "from 1 up" in line.problem


def test_the_form_in_front_is_sent_and_checked_by_its_commands(driver: Driver) -> None:
    """Ctrl+Return and Ctrl+Shift+D reach the form itself; they ended in an error before."""
    form = driver.train_form()
    driver.window.launch.show_form(TRAIN, "cleanrl")
    sent: list[list[Launch]] = []
    form.submitted.disconnect()
    form.submitted.connect(sent.append)
    driver.window.binder.trigger("run.submit")
    assert [len(launches) for launches in sent] == [1]
    form.seeds.setText("none")
    driver.window.binder.trigger("run.dry_run")
    assert "whole number" in form.notes.results.toPlainText()
    form.load(TrainDraft())


def test_a_new_run_begins_in_the_first_field(driver: Driver) -> None:
    """Not in a frame around the form, from where the first field is two presses of Tab away."""
    form = driver.train_form()
    driver.window.binder.trigger("run.new")
    focus = driver.window.focusWidget()
    assert focus is not None
    assert form.algo.isAncestorOf(focus)


def test_a_group_whose_first_seed_has_a_number_shows_it() -> None:
    """A mean without a spread; runs of different configurations are never averaged."""
    runs = [record(run_id=str(n), seed=n, metrics={"episodic_return": 5.0 * n} if n else {})
            for n in range(3)]  # fmt: skip
    column = COLUMNS[BY_KEY["return"]]
    assert group_text(column, runs[:2]) == "5"
    assert group_text(column, runs) == "7.5 ± 3.5 SD"
    assert group_text(column, runs, alike=False) == ""
