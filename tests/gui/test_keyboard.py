"""Every task of the workbench by keyboard alone; the guide has the same list."""

import pytest
from qtpy.QtWidgets import QDialog, QMessageBox
from support.trainer import Trainer

from gym_gui.forms.evaluate_form import EvaluateForm
from gym_gui.forms.resume_form import ResumeForm
from gym_gui.forms.script_form import ScriptForm
from gym_gui.forms.train_form import TrainForm

from .conftest import Driver, config_of
from .keys import Keys

pytestmark = pytest.mark.prove


@pytest.fixture
def keys(driver: Driver, trained: list[str]) -> Keys:
    """Hands on the keyboard of a window with two finished runs."""
    driver.until(lambda: driver.window.runs_panel.model.row_of(trained[0]) >= 0, "the runs")
    return Keys(driver)


def _choose(driver: Driver, keys: Keys, run_id: str) -> None:
    """Select a run as a person does: by the finder."""
    keys.find("Ctrl+P", run_id[-6:])
    driver.until(lambda: driver.services.selection.ids == (run_id,), "the run is selected")


def _dialog(driver: Driver, keys: Keys) -> QDialog:
    def found() -> list[QDialog]:
        return [one for one in driver.window.findChildren(QDialog) if one.isVisible()]

    driver.until(found, "a dialog")
    keys.wait_for(found()[0])
    return found()[0]


def test_a_form_is_filled_in_and_sent(driver: Driver, keys: Keys) -> None:
    """Ctrl+N is in the first field; Tab goes through the form; Ctrl+Return sends it."""
    form = driver.train_form()
    sent: list[list[object]] = []
    form.submitted.disconnect()
    form.submitted.connect(sent.append)
    keys.press("Ctrl+N")
    assert form.algo.isAncestorOf(keys.focus), "the focus is in the first field"
    keys.tab_to(form.steps)
    keys.type("2k")
    keys.tab_to(form.seeds)
    keys.press("Ctrl+A")
    keys.type("3")
    keys.tab_to(form.vary)
    keys.type("gamma=0.9,0.99")
    driver.until(lambda: form.bar.train.text() == "Train 6 runs", "the count")
    keys.press("Ctrl+Return")
    assert [len(launches) for launches in sent] == [6]


def test_more_algorithms_are_ticked_by_key(driver: Driver, keys: Keys) -> None:
    """Space opens the list, letters find a name, Space ticks it, Escape closes the list."""
    form = driver.train_form()
    more = form.experiment.algos
    keys.press("Ctrl+N")
    keys.tab_to(more)
    keys.press("Space")
    driver.until(more.popup.isVisible, "the list")
    keys.type("dqn")
    keys.press("Tab", "Down", "Up", "Space", "Escape")
    driver.until(lambda: not more.popup.isVisible(), "the list is closed")
    assert more.chosen == ["dqn"]
    form.load(form.draft().from_json({}))


def test_every_panel_tab_and_form_is_reached(
    driver: Driver, keys: Keys, trained: list[str]
) -> None:
    """F6 goes from panel to panel, Ctrl+PgDown from tab to tab, the palette to any by name."""
    window = driver.window
    _choose(driver, keys, trained[0])
    keys.press("Ctrl+1")
    seen = set()
    for _ in range(4):
        keys.press("F6")
        seen |= {p for p in (window.runs_panel, window.launch, window.run_panel)
                 if p.isAncestorOf(keys.focus)}  # fmt: skip
    assert seen == {window.runs_panel, window.launch, window.run_panel}
    keys.press("Ctrl+2")
    keys.press("F6")
    before = window.run_panel.tabs.currentIndex()
    keys.press("Ctrl+PgDown")
    assert window.run_panel.tabs.currentIndex() == before + 1
    keys.press("Ctrl+PgUp")
    assert window.run_panel.tabs.currentIndex() == before
    keys.command("Tab of the run: Replay")
    assert window.run_panel.tabs.tabText(window.run_panel.tabs.currentIndex()) == "Replay"
    for name, kind in (("Script", ScriptForm), ("Train", TrainForm)):
        keys.command(f"Form: {name}")
        driver.until(lambda kind=kind: isinstance(window.launch.current_form, kind), name)
        assert window.launch.current_form is not None
        assert window.launch.current_form.isAncestorOf(keys.focus)


def test_runs_are_evaluated_continued_and_compared(
    driver: Driver, keys: Keys, trained: list[str]
) -> None:
    """Ctrl+E, Ctrl+Shift+R, Ctrl+M, Ctrl+I, Ctrl+Alt+B and Ctrl+Shift+M, from the table."""
    window = driver.window
    _choose(driver, keys, trained[0])
    keys.press("Ctrl+E")
    assert isinstance(window.launch.current_form, EvaluateForm)
    assert window.launch.current_form.source.run_id == trained[0]
    keys.press("Ctrl+Shift+R")
    assert isinstance(window.launch.current_form, ResumeForm)
    keys.press("Ctrl+2", "Ctrl+A")
    driver.until(lambda: set(trained) <= set(driver.services.selection.ids), "all are selected")
    keys.press("Ctrl+M", "Ctrl+Alt+B")
    assert window.compare.grid.band.currentText() == "Mean, 95 % CI"
    keys.press("Ctrl+I")
    driver.until(lambda: window.compare.results.found is not None, "the results")
    keys.press("Ctrl+Shift+M")
    assert window.compare.tabs.currentWidget() is window.compare.diff_page
    window.compare.tabs.setCurrentIndex(0)
    window.compare.grid.band.setCurrentIndex(0)
    # Back to the table by key: the page that had the keys was not left by one.
    keys.press("Ctrl+2")
    keys.command("Form: Train")


def test_a_run_is_steered_to_its_end_and_back_from_the_trash(
    driver: Driver, keys: Keys, shared_trainer: Trainer
) -> None:
    """Pause, resume, cancel with its question, clone, delete and undo."""
    run_id = driver.submit(config_of())
    driver.reaches(run_id, "EXEC")
    _choose(driver, keys, run_id)
    driver.until(lambda: driver.window.binder.actions["run.pause"].isEnabled(), "it can be paused")
    keys.press("Ctrl+Shift+U")
    driver.reaches(run_id, "PAUSE")
    driver.until(lambda: driver.window.binder.actions["run.resume"].isEnabled(), "or resumed")
    keys.press("Ctrl+U")
    driver.reaches(run_id, "EXEC")
    driver.until(lambda: driver.window.binder.actions["run.cancel"].isEnabled(), "or cancelled")
    keys.press("Ctrl+K")
    assert isinstance(_dialog(driver, keys), QMessageBox)
    keys.press("Tab", "Space")
    driver.reaches(run_id, "TERM")
    driver.until(lambda: driver.window.binder.actions["run.delete"].isEnabled(), "or deleted")
    keys.press("Ctrl+2", "Del")
    driver.until(lambda: run_id not in driver.services.store.runs, "it is gone")
    driver.until(lambda: driver.window.binder.actions["run.undo_delete"].isEnabled(), "undo")
    keys.press("Ctrl+Z")
    driver.until(lambda: run_id in driver.services.store.runs, "it is back")
    # Other tests look for the example worker by name and must not find this run.
    shared_trainer.client.delete(run_id)


@pytest.mark.parametrize("key", ["Ctrl+Shift+K", "Ctrl+,", "?", "Ctrl+O", "Ctrl+Shift+O"])
def test_dialogs_open_and_close(driver: Driver, keys: Keys, key: str) -> None:
    """Columns, settings, shortcuts, a config, an archive: Escape closes each."""
    driver.window.runs_panel.table.setFocus()
    keys.press(key)
    dialog = _dialog(driver, keys)
    keys.press("Escape")
    driver.until(lambda: not _visible(dialog), "it is closed")


def _visible(dialog: QDialog) -> bool:
    try:
        return dialog.isVisible()
    except RuntimeError:
        return False  # deleted as soon as it was closed


def test_the_window_is_shaped(driver: Driver, keys: Keys) -> None:
    """The filter and both ways of grouping."""
    window = driver.window
    keys.press("Ctrl+F")
    keys.type("no-such-run")
    driver.until(lambda: window.runs_panel.model.rowCount() == 0, "the filter")
    keys.press("Ctrl+A", "Backspace", "Return")
    driver.until(lambda: window.runs_panel.model.rowCount() > 0, "all runs")
    assert keys.focus is window.runs_panel.table
    for key, on in (("Ctrl+G", "grouped"), ("Ctrl+Alt+G", "by_experiment")):
        keys.press(key)
        assert getattr(window.runs_panel.model.view, on)
        keys.press(key)
        assert not getattr(window.runs_panel.model.view, on)


def test_another_actor_is_chosen_and_the_play_form_reached(driver: Driver, keys: Keys) -> None:
    """The finder knows actors; Ctrl+4 and F6 lead to the game's form."""
    window = driver.window
    keys.find("Ctrl+P", "example: estimate")
    driver.until(lambda: window.launch.current is not None
                 and window.launch.current.worker_type == "example", "the actor")  # fmt: skip
    keys.press("Ctrl+4", "F6")
    assert window.play.isAncestorOf(keys.focus)
    keys.tab_to(window.play.start)
    keys.press("Ctrl+1")
    window.launch.choose("cleanrl")
