"""A worker that `mosaic worker new` wrote, from the window: no line of the window knows it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.trainer import Trainer, install_package

from mosaic.records import RunRecord
from mosaic.workers.scaffold import write_package

from .conftest import Driver

pytestmark = pytest.mark.prove


@pytest.fixture
def window(
    tmp_path: Path,
    make_trainer: Callable[..., Trainer],
    open_window: Callable[..., Driver],
    monkeypatch: pytest.MonkeyPatch,
) -> Driver:
    """A window and a daemon that both find the new package."""
    folder = tmp_path / "arms"
    write_package("arms", folder)
    install_package(folder, "arms-worker", {"arms": "arms:get_worker_metadata"})
    monkeypatch.syspath_prepend(str(folder))
    trainer = make_trainer()
    path = f"{folder}{os.pathsep}{trainer.environment()['PYTHONPATH']}"
    trainer.start(PYTHONPATH=path)
    driver = open_window(trainer.home)
    driver.connected()
    return driver


def _newest(driver: Driver, mode: str) -> RunRecord:
    def found() -> RunRecord | None:
        runs = [run for run in driver.services.store.runs.values() if run.mode == mode]
        return next((run for run in runs if run.version), None)

    run: RunRecord = driver.until(found, f"a run in mode {mode}")
    ended = driver.reaches(run.run_id, "TERM")
    assert ended.outcome == "completed", ended.reason
    return ended


def test_a_new_worker_is_trained_continued_and_evaluated_in_the_window(window: Driver) -> None:
    """Its form has its arguments with their ranges; its curve and its numbers are shown."""
    launch = window.window.launch
    form = launch.show_form("train", "arms")
    window.until(lambda: form.described == "bandit" and form.env.names, "the form is ready")
    assert set(form.env.names) == {"TenArms-v0"}
    editor = form.parameters.editor("epsilon")
    editor.editor.setText("1.5")
    assert "at most 1" in editor.problem
    editor.set_value(0.3)
    form.steps.set_value(400)
    form.submit()
    trained = _newest(window, "train")
    assert (trained.worker, trained.algo) == ("arms", "bandit")

    window.window.show_layout("watch")
    window.window.runs_panel.show_run(trained.run_id)
    window.until(lambda: window.services.selection.current == trained.run_id, "selected")
    panel = window.window.run_panel
    panel.open_tab("overview")
    window.until(lambda: panel.tab("overview").tiles["Return"].number != "—", "its return")
    panel.open_tab("charts")
    window.until(lambda: panel.tab("charts").grid.cards, "its curves")

    window.window.binder.trigger("run.continue")
    form = launch.form("resume", "arms")
    window.until(lambda: form.source.run_id == trained.run_id, "the run is chosen")
    form.steps.set_value(600)
    form.submit()
    resumed = _newest(window, "resume_training")
    assert resumed.parent_run_id == trained.run_id
    assert resumed.progress.step == 600

    window.window.runs_panel.show_run(resumed.run_id)
    window.until(lambda: window.services.selection.current == resumed.run_id, "selected")
    window.window.binder.trigger("run.evaluate")
    form = launch.form("evaluate", "arms")
    window.until(lambda: form.source.run_id == resumed.run_id, "the run is chosen")
    form.episodes.set_value(5)
    form.submit()
    assert _newest(window, "policy_eval").parent_run_id == resumed.run_id
