"""Play, replay and the trackers: what a run leaves behind, seen in the window."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QInputDialog, QLabel, QLineEdit
from support.trainer import Trainer

from gym_gui.background.run_reading import read_wandb
from gym_gui.models.optuna_study import read_study
from mosaic.records import RunUpdated
from mosaic.reports.study_figures import PROGRAM as STUDY_PROGRAM
from mosaic.reports.study_figures import importance_of

from .conftest import Driver, config_of


def test_play_by_keyboard_is_recorded_and_replayed(driver: Driver) -> None:
    """A person plays in the window; every step is recorded and can be seen again."""
    play = driver.window.play
    driver.window.show_layout("play")
    driver.until(lambda: "FrozenLake-v1" in play.env.names, "environments")
    play.env.set_text("FrozenLake-v1")
    driver.until(lambda: play.options.editor("is_slippery") is not None, "the game's options")
    play.options.editor("is_slippery").set_value(False)
    play.begin()
    driver.until(lambda: play.game.view.image is not None and play.stop.isEnabled(), "the game", 30)
    assert play.game.captured
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Right):
        step = play.score
        QTest.keyClick(play.game, key)
        driver.until(lambda seen=step: play.score != seen, "a step")
    QTest.keyClick(play.game, Qt.Key.Key_Escape)
    assert not play.game.captured
    run_id = play.run_id
    play.end()
    assert driver.reaches(run_id, "TERM").outcome == "completed"
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(run_id)
    driver.window.run_panel.open_tab("replay")
    replay = driver.window.run_panel.tab("replay")
    driver.until(lambda: replay.player.slider.maximum() == 2, "three recorded steps")
    assert "action 1" in replay.player.caption


def test_cartpole_can_be_played_by_hand(driver: Driver) -> None:
    """Keys are named, time waits in step mode, and stands still while the keys are elsewhere."""
    play = driver.window.play
    driver.window.show_layout("play")
    driver.until(lambda: "CartPole-v1" in play.env.names, "environments")
    play.env.set_text("CartPole-v1")
    play.pace.setCurrentText("step by step")
    play.begin()
    driver.until(lambda: "step 0" in play.score and play.stop.isEnabled(), "the game", 30)
    shown = {label.text() for label in play.findChildren(QLabel)}
    assert {"push left", "push right"} <= shown
    for step in (1, 2):
        QTest.keyClick(play.game, Qt.Key.Key_Right)
        driver.until(lambda step=step: f"step {step} " in play.score, "one key, one step")
    QTest.keyClick(play.game, Qt.Key.Key_Escape)
    assert play.game.view.hint.startswith("Paused")
    play.pace.setCurrentText("normal")
    play.game.capture()
    driver.until(lambda: play.game.view.hint.startswith("Starts in"), "the countdown")
    assert "step 2 " in play.score
    driver.until(lambda: play.game.view.hint.startswith("Over."), "left alone, the pole falls")
    run_id = play.run_id
    play.end()
    assert driver.reaches(run_id, "TERM").outcome == "completed"


def test_steps_of_a_telemetry_run_arrive_live(driver: Driver) -> None:
    """A telemetry-lane run shows its steps as they happen, with the picture of the newest."""
    script = "\n".join(["left x30", "right x30"])
    extras = {"script": script, "fps": 20}
    run_id = driver.submit(config_of("human", "human", env_id="CartPole-v1", extras=extras))
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(run_id)
    driver.reaches(run_id, "EXEC", "TERM")
    driver.window.run_panel.open_tab("telemetry")
    tab = driver.window.run_panel.tab("telemetry")
    driver.until(lambda: tab.table.rowCount() > 5, "steps")
    driver.until(lambda: tab.view.image is not None, "a picture")
    driver.reaches(run_id, "TERM")


def test_wandb_tab_appears_with_its_folder(
    driver: Driver,
    trained: list[str],
    extra_files: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The W&B tab is not there until the run's own folder is, then it says what is on disk."""
    panel = driver.window.run_panel
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(trained[1])
    driver.until(lambda: panel.shown, "tabs")
    assert "wandb" not in panel.shown
    folder = extra_files / "wandb" / "offline-run-20260101_000000-abc"
    (folder / "files").mkdir(parents=True)
    (folder / "files" / "wandb-summary.json").write_text(json.dumps({"charts/return": 12.5}))
    driver.until(lambda: "wandb" in panel.shown, "the tab appears")
    panel.open_tab("wandb")
    tab = panel.tab("wandb")
    driver.until(lambda: tab.table.rowCount() > 0, "the summary")
    names = [tab.table.item(row, 0).text() for row in range(tab.table.rowCount())]
    assert "charts/return" in names
    assert "offline" in tab.banner.text
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("NETRC", "/nowhere")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    tab.send.click()
    asked = driver.until(lambda: tab.findChild(QInputDialog), "the key is asked for")
    assert asked.textEchoMode() == QLineEdit.EchoMode.Password
    asked.setTextValue("k" * 40)
    asked.accept()
    driver.until(lambda: "cannot be reached" in tab.banner.text, "why it was not sent")
    assert tab.send.isEnabled()


def test_a_run_that_wandb_tracks_shows_its_page_before_it_ends(
    shared_trainer: Trainer, trained: list[str], extra_files: Path
) -> None:
    """The address that W&B itself gave is read beside a manifest that does not know it."""
    folder = extra_files / "wandb"
    (folder / "run-20260101_000000-abc").mkdir(parents=True)
    about = {"url": "https://wandb.ai/me/p/runs/abc", "entity": "me", "run_id": "abc"}
    (folder / "address.json").write_text(json.dumps(about))
    summary = read_wandb(shared_trainer.client, trained[1], str(extra_files))
    assert summary is not None
    assert (summary.mode, summary.url) == ("online", about["url"])
    assert ("entity", "me") in summary.facts


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A real Optuna study in SQLite and in a journal, with as many trials; only read."""
    folder = tmp_path_factory.mktemp("study")
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    def objective(trial: Any) -> float:
        trial.suggest_categorical("kind", ["a", "b"])
        return float(trial.suggest_float("x", 0, 1))

    paths = [folder / "optuna.db", folder / "journal.log"]
    storages = [f"sqlite:///{paths[0]}", JournalStorage(JournalFileBackend(str(paths[1])))]
    for storage in storages:
        made = optuna.create_study(storage=storage, study_name="s", direction="maximize")
        made.optimize(objective, n_trials=8)
    return paths


def test_optuna_studies_are_read_without_disturbing_them(study: list[Path]) -> None:
    """Both kinds of study files give trials, best first, and the parameter that matters."""
    for path in study:
        before = path.read_bytes()
        read = read_study(path)
        values = [trial.value for trial in read.trials]
        assert values == sorted(values, reverse=True)
        assert read.maximise
        assert next(iter(importance_of(read.rows()))) == "x"
        assert set(read.trials[0].params) == {"kind", "x"}
        assert path.read_bytes() == before


def test_optuna_tab_sorts_trials(
    driver: Driver, trained: list[str], study: list[Path], extra_files: Path
) -> None:
    """The trial browser appears with the study and sorts by its numbers."""
    (extra_files / "optuna.db").write_bytes(study[0].read_bytes())
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(trained[1])
    driver.until(lambda: "optuna" in driver.window.run_panel.shown, "the tab")
    driver.window.run_panel.open_tab("optuna")
    tab = driver.window.run_panel.tab("optuna")
    driver.until(lambda: tab.table.rowCount() == 8, "trials")
    tab.table.sortItems(2, Qt.SortOrder.AscendingOrder)
    values = [float(tab.table.item(row, 2).text()) for row in range(8)]
    assert values == sorted(values)


def _drawing() -> psutil.Process | None:
    """The process that draws the figures of a study for this window."""
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            if any(word.endswith(STUDY_PROGRAM) for word in child.cmdline()):
                return child
    return None


def _ends_the_drawing(driver: Driver, act: Callable[[], object]) -> None:
    drawing = driver.until(_drawing, "the figures are being drawn")
    # Stopped, it cannot end by itself, however quick the machine is.
    drawing.suspend()
    try:
        act()
        driver.until(lambda: not drawing.is_running(), "the drawing has ended")
    finally:
        with suppress(psutil.NoSuchProcess):
            drawing.kill()


def test_a_drawing_ends_when_it_is_no_longer_wanted(
    driver: Driver, trained: list[str], study: list[Path], extra_files: Path
) -> None:
    """Leaving the Optuna tab, or closing the window, ends the process that draws its figures."""
    (extra_files / "optuna.db").write_bytes(study[0].read_bytes())
    panel = driver.window.run_panel
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(trained[1])
    driver.until(lambda: "optuna" in panel.shown, "the tab")
    panel.open_tab("optuna")
    _ends_the_drawing(driver, lambda: panel.open_tab("overview"))
    panel.open_tab("optuna")
    _ends_the_drawing(driver, driver.window.close)


def test_ten_thousand_runs_stay_quick(driver: Driver) -> None:
    """Ten thousand runs: filtering, sorting and changes keep every slot short (the watchdog)."""
    run_id = driver.submit(config_of(total_timesteps=2, extras={"step_ms": 1}))
    one = driver.reaches(run_id, "TERM")
    generation = "many"
    batch = [
        RunUpdated(
            generation=generation,
            sequence=n,
            run=replace(one, run_id=f"01{n:024d}", seed=n, created_at=float(n)),
        )
        for n in range(10_000)
    ]
    store, panel = driver.services.store, driver.window.runs_panel
    for start in range(0, len(batch), 250):
        store.apply(batch[start : start + 250])
        driver.spin(0.01)
    driver.until(lambda: panel.model.rowCount() >= 10_000, "all rows")
    panel.filter.setText("seed>9990")
    driver.until(lambda: panel.model.rowCount() == 9, "nine fit")
    panel.filter.clear()
    driver.until(lambda: panel.model.rowCount() >= 10_000, "all rows")
    place = panel.model.place_of("seed")
    for order, first in ((Qt.SortOrder.DescendingOrder, 9999), (Qt.SortOrder.AscendingOrder, 0)):
        panel.table.sortByColumn(place, order)
        seeds = [run.seed for run in panel.model.runs_shown() if run.seed is not None]
        assert seeds[0] == first
        assert seeds == sorted(seeds, reverse=order == Qt.SortOrder.DescendingOrder)
    for n in range(20):
        changed = replace(batch[n].run, run_name=f"renamed {n}")
        store.apply([replace(batch[n], run=changed)])
        driver.spin(0.02)

    def shown(n: int) -> str:
        row = panel.model.row_of(f"01{n:024d}")
        return str(panel.model.index(row, panel.model.place_of("name")).data())

    driver.until(lambda: shown(19) == "renamed 19", "the last change is shown")
    assert [shown(n) for n in range(20)] == [f"renamed {n}" for n in range(20)]
