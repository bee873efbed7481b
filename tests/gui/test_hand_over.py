"""What leaves the window: notebooks, pages, ONNX, data sets, certificates; by the real commands."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from qtpy.QtWidgets import QFileDialog, QInputDialog
from support.trainer import Trainer

from gym_gui.models.leaving import proposed_dataset, proposed_file
from gym_gui.models.notices import Notice
from gym_gui.models.train_draft import TrainDraft
from gym_gui.tabs.overview_tab import OverviewTab
from mosaic.config import build
from mosaic.records import RunRecord

from .conftest import Driver
from .test_models import record


def _choose(driver: Driver, action: str, path: Path) -> None:
    """Press an action and answer its file dialog."""
    driver.window.binder.actions[action].trigger()
    dialog = driver.until(lambda: driver.window.findChild(QFileDialog), "the dialog")
    assert isinstance(dialog, QFileDialog)
    dialog.fileSelected.emit(str(path))
    dialog.close()
    driver.until(lambda: driver.window.findChild(QFileDialog) is None, "the dialog is gone")


def _answer(driver: Driver, action: str, name: str) -> None:
    """Press an action and answer its question for a name."""
    driver.window.binder.actions[action].trigger()
    dialog = driver.until(lambda: driver.window.findChild(QInputDialog), "the question")
    assert isinstance(dialog, QInputDialog)
    dialog.setTextValue(name)
    dialog.accept()
    driver.until(lambda: driver.window.findChild(QInputDialog) is None, "the question is gone")


def _said(driver: Driver, tone: str, words: str = "") -> Notice:
    """The notice with these words; an error is shown in full, news about runs are passed over."""
    notices = driver.services.notices
    found = driver.until(
        lambda: [one for one in notices.history if words in one.text or one.tone == "danger"],
        f"the user reads: {words}",
    )
    assert isinstance(found[-1], Notice)
    assert found[-1].tone == tone, f"{found[-1].text} {found[-1].detail}"
    return found[-1]


def test_names_for_what_leaves_are_readable() -> None:
    """A file says what it holds; a data set has a name that Minari takes."""
    run = replace(record(run_id="01HZZZZZZZZZZZZZZZZZABCDEF"), run_name="lr 1e-4, long", algo="ppo")
    assert proposed_file(run, ".onnx") == "lr-1e-4--long-abcdef.onnx"
    assert proposed_dataset(replace(run, env_id="ALE/Breakout-v5")) == "breakout/ppo-v0"
    game = replace(run, algo="play", env_id="CartPole-v1")
    assert proposed_dataset(game) == "cartpole/me-v0"
    session = replace(run, mode="take_over", env_id="CartPole-v1")
    assert proposed_dataset(session) == "cartpole/ppo-and-me-v0"


def test_a_notebook_and_a_page_are_written_from_the_window(
    driver: Driver, trained: list[str], tmp_path: Path
) -> None:
    """Both from the menu of the run, off the window's thread; each notice offers to open it."""
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(trained[0])
    driver.window.run_panel.open_tab("overview")
    overview = driver.window.run_panel.tab("overview")
    assert isinstance(overview, OverviewTab)
    entries = overview.hand_over.entries
    driver.until(lambda: entries["run.export_page"].isEnabled(), "the run has a policy")
    notebook = tmp_path / "run.ipynb"
    _choose(driver, "run.notebook", notebook)
    said = _said(driver, "success", "loaded")
    assert (said.text.partition(" ")[0], said.action) == ("run.ipynb", "Open")
    text = notebook.read_text()
    assert trained[0] in text
    assert json.loads(text)["nbformat"] == 4
    driver.services.notices.history = []
    page = tmp_path / "play.html"
    _choose(driver, "run.export_page", page)
    said = _said(driver, "success", "in a browser")
    assert (said.text, said.action) == ("play.html plays CartPole-v1 in a browser", "Open")
    assert "<canvas" in page.read_text()


def test_what_cannot_be_exported_says_why(
    driver: Driver, trained: list[str], tmp_path: Path
) -> None:
    """A run that kept one checkpoint has no piece to verify: the notice says how to keep more."""
    driver.services.selection.select((trained[0],))
    driver.until(lambda: driver.window.binder.actions["run.verify"].isEnabled(), "selected")
    driver.window.binder.actions["run.verify"].trigger()
    said = _said(driver, "danger", "was not verified")
    assert "--keep every:" in said.text + said.detail


@pytest.fixture
def kept(driver: Driver, shared_trainer: Trainer) -> Iterator[RunRecord]:
    """A short run that keeps three checkpoints; gone after the test, with what was made of it."""
    client = shared_trainer.client
    before = {run.run_id for run in client.list_runs(page_size=500)[0]}
    run = client.train(
        "ppo", env_id="CartPole-v1", total_timesteps=2048, num_envs=2, keep="every:512"
    )
    yield shared_trainer.ended(run.run_id)
    for one in client.list_runs(page_size=500)[0]:
        if one.run_id not in before:
            client.cancel(one.run_id, grace_s=0.5)
            shared_trainer.ended(one.run_id)
            client.delete(one.run_id, purge=True)


@pytest.mark.prove
def test_verify_onnx_and_minari_from_the_window(
    driver: Driver, kept: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A piece is trained again and certified; the policy and its episodes leave, checked."""
    minari = pytest.importorskip("minari")
    onnx = pytest.importorskip("onnx")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    driver.until(lambda: kept.run_id in driver.services.store.runs, "the run is listed")
    driver.services.selection.select((kept.run_id,))
    driver.until(lambda: driver.window.binder.actions["run.verify"].isEnabled(), "selected")
    driver.window.binder.actions["run.verify"].trigger()
    said = _said(driver, "success", ", steps ")
    assert said.text.endswith(": verified")
    assert "values are equal to the last bit" in said.detail
    assert said.run_id

    driver.services.notices.history = []
    driver.services.selection.select((kept.run_id,))
    folder = tmp_path / "policy.onnx"
    _choose(driver, "run.export_onnx", folder)
    said = _said(driver, "success", "checked on")
    assert "checked on 1000 observations" in said.text
    onnx.checker.check_model(onnx.load(folder / "model.onnx"))

    driver.services.notices.history = []
    _answer(driver, "run.export_minari", "cartpole/window-v0")
    said = _said(driver, "success", "mean return")
    assert said.text.startswith("cartpole/window-v0: 10 episodes")
    data = minari.MinariDataset(tmp_path / "datasets" / "cartpole" / "window-v0" / "data")
    assert data.total_episodes == 10
    # One press, and the form clones it.
    assert said.pressed is not None
    said.pressed()
    form = driver.window.launch.form("train")
    driver.until(lambda: form.described == "bc", "the form of behaviour cloning")
    assert form.draft().params["dataset"] == "cartpole/window-v0"
    form.load(TrainDraft())


@pytest.mark.prove
def test_the_steps_of_a_person_are_marked_in_the_data_set(
    driver: Driver,
    trained: list[str],
    shared_trainer: Trainer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A session exported from the window keeps, for each step, whether a person took it."""
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    script = "policy x3\nleft x2\npolicy x2"
    session = shared_trainer.client.play_with(trained[0], script=script)
    try:
        assert shared_trainer.ended(session.run_id).completed
        driver.reaches(session.run_id, "TERM")
        driver.services.selection.select((session.run_id,))
        _answer(driver, "run.export_minari", "cartpole/shared-v0")
        _said(driver, "success", "mean return")
        data = minari.MinariDataset(tmp_path / "datasets" / "cartpole" / "shared-v0" / "data")
        (episode,) = data.iterate_episodes()
        # The first entry belongs to the reset, as everywhere in Minari.
        assert list(episode.infos["person"]) == [False, *[False] * 3, True, True, False, False]
    finally:
        shared_trainer.client.delete(session.run_id, purge=True)


def test_a_data_set_is_learned_from_through_the_form(driver: Driver, trained: list[str]) -> None:
    """*Learn from a Minari data set* fills in behaviour cloning for the environment in sight."""
    driver.services.selection.select((trained[0],))
    _answer(driver, "run.import_minari", "cartpole/expert-v0")
    form = driver.window.launch.form("train")
    driver.until(lambda: form.described == "bc", "the form of behaviour cloning")
    draft = form.draft()
    assert (draft.env_id, draft.params["dataset"]) == ("CartPole-v1", "cartpole/expert-v0")
    config = build.read_config(draft.config(1).document())
    assert config.worker.algo == "bc"
    # Forms are kept with the home, which other windows share.
    form.load(TrainDraft())
