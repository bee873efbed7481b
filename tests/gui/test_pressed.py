"""Buttons of the study page and of the run's pages, pressed in a live window on real runs."""

from collections.abc import Iterator

import pytest
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QPushButton
from support.trainer import Trainer

from gym_gui.background import sweep_driver
from gym_gui.forms.resume_form import ResumeForm
from gym_gui.panels.study_page import StudyPage
from gym_gui.tabs.lineage_tab import LineageTab
from mosaic.records import RunRecord

from .conftest import Driver

pytestmark = pytest.mark.prove
TRIALS = 4
SWEEP = (
    "sweep", "example", "--total-timesteps", "60", "--param", "step-ms=10..40",
    "--objective", "estimate", "--trials", str(TRIALS), "--pruner", "none",
)  # fmt: skip


def _press(driver: Driver, button: QPushButton) -> None:
    driver.until(lambda: button.isVisible() and button.isEnabled(), f"{button.text()} can be used")
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)


@pytest.fixture
def tidy(driver: Driver, shared_trainer: Trainer) -> Iterator[None]:
    """Removes the runs that a test has made: others share the daemon."""
    client = shared_trainer.client
    before = {run.run_id for run in client.list_runs(page_size=500)[0]}
    yield
    for one in client.list_runs(page_size=500)[0]:
        if one.run_id not in before:
            client.cancel(one.run_id, grace_s=0.5)
            shared_trainer.ended(one.run_id)
            client.delete(one.run_id, purge=True)


def _study(driver: Driver, sweep_id: str) -> StudyPage:
    driver.connected()
    driver.until(lambda: sweep_id in driver.services.store.runs, "the sweep is listed")
    driver.window.show_layout("analyse")
    driver.services.selection.select((sweep_id,))
    compare = driver.window.compare
    compare.tabs.setCurrentWidget(compare.study)
    driver.until(lambda: compare.study.search is not None, "the study is read")
    return compare.study


def test_a_study_is_stopped_continued_and_confirmed_by_its_buttons(
    driver: Driver, shared_trainer: Trainer, tidy: None
) -> None:
    """*Stop* starts no more trials, *Continue* those that are left, *Confirm* says what holds."""
    sweep_id = sweep_driver.drive(shared_trainer.home, SWEEP)
    page = _study(driver, sweep_id)

    def ended() -> bool:
        tag = f"sweep={sweep_id}"
        return all(run.ended for run in driver.services.store.runs.values() if tag in run.tags)

    def complete() -> int:
        page.read()
        driver.spin(0.3)
        return len(page.search.complete) if page.search else 0

    _press(driver, page.stop)
    driver.until(lambda: complete() and page.search and page.search.halted, "the sweep has stopped")
    driver.until(ended, "its runs have ended")
    assert complete() < TRIALS, "it was stopped before its end"
    assert "No more trials" in page.verdict.text()
    _press(driver, page.resume)
    driver.until(lambda: complete() == TRIALS, "every trial has a value")
    driver.until(ended, "its runs have ended")
    assert page.search is not None
    assert not page.search.halted
    _press(driver, page.confirm)
    driver.until(lambda: complete() and page.search and page.search.confirmed, "confirmed")
    assert page.search is not None
    assert len(page.search.confirmed) == 3
    assert page.verdict.text().count("fresh seeds") == 3


@pytest.fixture
def kept(driver: Driver, shared_trainer: Trainer, tidy: None) -> RunRecord:
    """A run that has removed some of its checkpoints."""
    run = shared_trainer.client.train(
        "ppo", total_timesteps=8192, num_envs=2, num_steps=64, checkpoint_interval_s=0.05,
        keep="every:4096,last:1",
    )  # fmt: skip
    ended = shared_trainer.ended(run.run_id)
    driver.until(lambda: driver.services.store.runs.get(run.run_id), "listed")
    driver.reaches(run.run_id, "TERM")
    return ended


def _new(driver: Driver, before: set[str], parent: str) -> RunRecord:
    runs = driver.services.store.runs
    found: list[RunRecord] = driver.until(
        lambda: [
            run for run in runs.values() if run.run_id not in before and run.parent_run_id == parent
        ],
        "a new run",
    )
    return found[0]


def test_a_run_is_forked_and_continued_by_its_buttons(
    driver: Driver, shared_trainer: Trainer, kept: RunRecord
) -> None:
    """Both pages offer what is still on the disk, and what they start trains to its end."""
    there = [item.step for item in shared_trainer.client.kept_checkpoints(kept.run_id)]
    saved = [item.step for item in kept.checkpoints if item.kind == "full"]
    assert len(there) < len(set(saved)), "some were removed"
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(kept.run_id)
    driver.window.run_panel.open_tab("lineage")
    lineage = driver.window.run_panel.tab("lineage")
    assert isinstance(lineage, LineageTab)
    driver.until(lambda: lineage.steps.count() == len(there), "the checkpoints")
    lineage.steps.setCurrentIndex(lineage.steps.findData(there[0]))
    before = set(driver.services.store.runs)
    _press(driver, lineage.fork)
    fork = _new(driver, before, kept.run_id)
    assert fork.parent_step == there[0]
    assert driver.reaches(fork.run_id, "TERM").completed

    driver.services.selection.select((kept.run_id,))
    driver.window.binder.actions["run.continue"].trigger()
    form = driver.window.launch.current_form
    assert isinstance(form, ResumeForm)
    boxes = form.source.checkpoints
    driver.until(lambda: boxes.count() == 1 + len(there), "the newest, and those that are kept")
    offered = [boxes.itemText(place).partition(" · ")[0] for place in range(boxes.count())]
    assert offered == ["Newest", *(f"step {step:,}" for step in sorted(there, reverse=True))]
    form.steps.setText("8704")
    before = set(driver.services.store.runs)
    _press(driver, form.start)
    again = _new(driver, before, kept.run_id)
    assert again.mode == "resume_training"
    assert driver.reaches(again.run_id, "TERM").completed
    assert shared_trainer.client.get(again.run_id).progress.step >= 8704
