"""What the train form promises beside training: presets, pasting elsewhere, nothing lost."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from qtpy.QtCore import Qt
from qtpy.QtGui import QGuiApplication
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QComboBox, QInputDialog, QLineEdit, QPlainTextEdit
from support.patience import PATIENCE_S
from support.trainer import Trainer, until

from gym_gui.forms.option_sections import MachineSection
from gym_gui.models.draft_export import as_command
from gym_gui.models.presets import PresetBook, shipped_presets
from gym_gui.models.requirement_sets import RequirementSet
from gym_gui.models.train_draft import TrainDraft
from mosaic.errors import Problem

from .conftest import Driver

# Types into a window's form and tells when it is done; the test then kills it.
_TYPIST = """
import sys
from gym_gui.app import make_application, open_window
from mosaic.config.paths import Home
application = make_application()
window = open_window(Home.locate(sys.argv[1]), False)
form = window.launch.form("train")
while not (form.described and form.env.names):
    application.processEvents()
form.steps.setText("12e")
form.seed.setText("77")
form.tags.setText("kept")
form.parameters.editor("gamma").editor.setText("1.5")
form.parameters.editor("num_envs").editor.setText("6")
form.machine.wall.setText("30")
other = window.launch.form("evaluate", "cleanrl")
other.episodes.setText("3")
print("typed", flush=True)
application.exec()
"""


def test_presets_set_what_they_say_and_nothing_else() -> None:
    """A preset leaves the run's name and notes alone; a stored one comes back the same."""
    draft = TrainDraft(run_name="mine", notes="why", env_id="Acrobot-v1", params={"gamma": 0.9})
    smoke = {"smoke": {"env_id": "CartPole-v1", "total_timesteps": 64, "buffer_size": 10}}
    quick, usual, report = shipped_presets(smoke, 5000)
    applied = quick.apply(draft)
    assert (applied.run_name, applied.notes) == ("mine", "why")
    assert (applied.env_id, applied.total_timesteps) == ("CartPole-v1", 64)
    assert applied.params == {"buffer_size": 10}
    assert (usual.apply(draft).env_id, usual.apply(draft).total_timesteps) == ("Acrobot-v1", 5000)
    assert report.apply(draft).seeds == 5
    book = PresetBook()
    draft.wandb = {"wandb_api_key": "CANARY"}
    book.save(draft, "tuned")
    stored = json.loads(json.dumps(book.to_json()))
    assert "CANARY" not in json.dumps(stored)
    again, notice = PresetBook.from_json(stored)
    assert not notice
    assert again.of("cleanrl", "ppo")[0].apply(TrainDraft()).params == {"gamma": 0.9}
    assert again.of("cleanrl", "dqn") == []
    assert PresetBook.from_json({"version": 1, "presets": [5]})[1]


def test_preset_is_saved_used_and_deleted(driver: Driver) -> None:
    """Settings are kept by name for their algorithm, used from the palette, and deleted again."""
    form = driver.train_form()
    form.parameters.editor("num_envs").set_value(3)
    form.seeds.set_value(2)
    form.name.setText("stays")
    driver.window.binder.trigger("run.save_preset")
    asked = driver.until(lambda: driver.window.findChild(QInputDialog), "the question")
    asked.setTextValue("three envs")
    asked.accept()
    path = driver.services.link.home.root / "gui" / "presets.json"
    driver.until(lambda: path.exists() and "three envs" in path.read_text(), "stored")
    form.reset()
    form.name.setText("stays")
    assert form.parameters.effective("num_envs") == 4
    driver.window.binder.trigger("run.presets")
    box = driver.window.command_palette
    QTest.keyClicks(box.line, "three")
    QTest.keyClick(box.line, Qt.Key.Key_Return)
    assert form.parameters.effective("num_envs") == 3
    assert (form.seeds.text(), form.name.text()) == ("2", "stays")
    quick = next(one for one in form.bar.presets() if one.name == "Quick check")
    form.use_preset(quick)
    assert (form.steps.text(), form.seeds.text()) == ("2048", "1")
    form.algo.set_text("dqn")
    driver.until(lambda: form.described == "dqn", "the other script")
    assert "three envs" not in {one.name for one in form.bar.presets()}
    form.algo.set_text("ppo")
    form.bar.delete_preset("three envs")
    assert {one.name for one in form.bar.presets() if not one.shipped} == set()
    form.load(TrainDraft())


def _paste(what: str, text: str, trainer: Trainer) -> list[str]:
    """Run what was copied as a person would, and give the ids it printed."""
    folder = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "MOSAIC_HOME": str(trainer.home.root),
    }
    command = {
        "command": ["bash", "-e"],
        "Python": [sys.executable, "-"],
        "JSON": ["mosaic", "submit", "/dev/stdin"],
    }[what]
    done = subprocess.run(
        command,
        input=text,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout.split()


@pytest.mark.parametrize(
    ("what", "mode"),
    [("command", "single"), ("command", "grid"), ("Python", "grid"), ("JSON", "grid")],
)
def test_what_is_copied_works_when_pasted(
    driver: Driver, shared_trainer: Trainer, what: str, mode: str
) -> None:
    """The command, the program and the config make the very run that the form would make."""
    form = driver.train_form()
    notes = 'it\'s "quoted"\nand $HOME stays'
    draft = TrainDraft(
        run_name="pa'sted", total_timesteps=512, seed=5, seeds=2 if what != "JSON" else 1,
        params={"num_envs": 2, "anneal_lr": False, "learning_rate": 1e-05}, notes=notes,
        tags=["a b", "c"], wall_minutes=9.0, fastlane_video_mode=mode, fastlane_grid_limit=2,
    )  # fmt: skip
    form.load(draft)
    form.bar.copy(what)
    ids = _paste(what, QGuiApplication.clipboard().text(), shared_trainer)
    assert len(ids) == draft.seeds
    for place, run_id in enumerate(ids):
        record = shared_trainer.client.get(run_id)
        shared_trainer.client.cancel(run_id, grace_s=0.2)
        made = json.loads((Path(record.run_dir) / "config.json").read_text())
        wanted = form.draft().config(5 + place).document()
        worker, asked = (one["metadata"]["worker"]["config"] for one in (made, wanted))
        for name in ("algo", "env_id", "seed", "total_timesteps"):
            assert worker[name] == asked[name]
        assert worker["extras"]["algo_params"] == asked["extras"]["algo_params"]
        assert worker["extras"]["notes"] == notes
        assert (made["run_name"], made["metadata"]["tags"]) == (wanted["run_name"], ["a b", "c"])
        assert made["limits"]["max_wallclock_minutes"] == 9.0
        if mode == "grid":
            assert worker["extras"]["fastlane_video_mode"] == "grid"
    form.load(TrainDraft())


def test_copied_command_names_another_home() -> None:
    """A window on another home copies a command that goes there."""
    assert as_command(TrainDraft(), "/a home").startswith("MOSAIC_HOME='/a home' mosaic train ppo")


def test_the_form_offers_only_what_the_worker_acts_on(driver: Driver) -> None:
    """W&B and videos are gone for a worker that would ignore them, and were not sent."""
    form = driver.train_form()
    with_both = form.choice.actor
    assert with_both is not None
    assert with_both.capabilities is not None
    form.wandb.track.setChecked(True)
    form.view.video.setChecked(True)
    without = replace(with_both, capabilities=replace(with_both.capabilities, options=()))
    form.set_actor(without)
    assert form.wandb.isHidden()
    assert form.view.video.isHidden()
    assert not form.draft().track_wandb
    assert not form.draft().capture_video
    form.set_actor(with_both)
    assert not form.wandb.isHidden()
    form.show_refusal([Problem("/artifacts/notes", "LOG705", "'notes' is not known here")])
    assert "[LOG705]" in str(form.banner.text)
    assert "[LOG_UI_MAINWINDOW_INVALID_CONFIG]" in str(form.banner.text)
    form.banner.say("info", "")
    form.load(TrainDraft())


def test_seeds_of_one_form_are_one_group(driver: Driver) -> None:
    """Seeds times N gives N runs that stand together when grouped by seed."""
    form = driver.train_form()
    form.steps.set_value(600_000)
    form.seeds.set_value(3)
    form.seed.set_value(900)
    form.parameters.editor("num_envs").set_value(2)
    form.submit()
    store, panel = driver.services.store, driver.window.runs_panel

    def mine() -> list[Any]:
        return [r for r in store.runs.values() if (r.seed or 0) >= 900 and r.version]

    driver.until(lambda: len(mine()) == 3, "three runs")
    panel.set_grouped(True)

    def grouped() -> bool:
        rows = [panel.model.row_at(place) for place in range(panel.model.rowCount())]
        wanted = {run.run_id for run in mine()}
        return any(
            hasattr(row, "runs") and {run.run_id for run in row.runs} == wanted for row in rows
        )

    driver.until(grouped, "one group of exactly these")
    panel.set_grouped(False)
    form.load(TrainDraft())


def test_half_filled_form_survives_kill_9(
    trainer: Trainer, open_window: Callable[..., Driver]
) -> None:
    """A window killed while somebody types loses a moment's work; half numbers come back too."""
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    command = [sys.executable, "-c", _TYPIST, str(trainer.home.root)]
    kept = trainer.home.root / "gui" / "forms.json"
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as window:
        assert window.stdout is not None
        assert window.stdout.readline() == "typed\n"
        until(lambda: kept.exists() and '"Episodes": "3"' in kept.read_text(), "it was stored")
        window.send_signal(signal.SIGKILL)
    again = open_window(trainer.home)
    again.connected()
    form = again.window.launch.form("train")
    again.until(lambda: form.parameters.effective("num_envs") == 6, "the parameter")
    assert (form.steps.text(), form.seed.text(), form.tags.text()) == ("12e", "77", "kept")
    assert form.parameters.editor("gamma").text == "1.5"
    assert form.machine.wall.text() == "30"
    assert again.window.launch.form("evaluate").episodes.text() == "3"


def test_tab_key_goes_as_the_eye_does(driver: Driver) -> None:
    """From the algorithm down to the last parameter, whichever algorithm was chosen last."""
    form = driver.train_form()
    driver.window.show_layout("train")
    form.algo.set_text("dqn")
    driver.until(lambda: form.described == "dqn", "another script")
    form.parameters.advanced.setChecked(True)
    driver.spin(0.2)
    driver.window.activateWindow()
    form.algo.combo.setFocus()
    seen, heights = [], []
    last = form.parameters.tab_stops()[-2]
    while (focus := driver.window.focusWidget()) is not last:
        assert len(seen) < 200, seen[-10:]
        seen.append(focus.accessibleName() or type(focus).__name__)
        heights.append(focus.mapTo(driver.window, focus.rect().topLeft()).y())
        driver.window.focusNextChild()
    assert seen[:10] == [
        "algorithm",
        "environment",
        "Curriculum",
        "Timesteps",
        "Seed",
        "Number of seeds",
        "Vary",
        "More algorithms",
        "More environments",
        "Run name",
    ]
    inside = [y for y in heights if y >= 0]
    assert inside == sorted(inside)
    form.parameters.advanced.setChecked(False)
    form.load(TrainDraft())


def test_every_main_action_has_a_key_or_is_in_the_palette(driver: Driver) -> None:
    """No shortcut means two things, and every field of a form says its name to a screen reader."""
    actions = driver.window.binder.catalog.values()
    keys = [action.shortcut for action in actions if action.shortcut]
    assert len(keys) == len(set(keys))
    form = driver.train_form()
    nameless = [
        type(widget).__name__
        for kind in (QLineEdit, QComboBox, QPlainTextEdit)
        for widget in form.findChildren(kind)
        if not widget.accessibleName() and not isinstance(widget.parent(), QComboBox)
    ]
    assert nameless == []


def test_missing_requirement_sets_are_installed_from_the_form(driver: Driver) -> None:
    """The button does what `mosaic extras` does, says how it ended, and looks again."""
    extras = driver.train_form().extras
    driver.until(lambda: extras._boxes, "the sets")
    extras.set_sets([RequirementSet("minigrid", False)])
    extras.require(["base", "minigrid"])
    assert "mosaic extras minigrid" in extras._missing.text()
    QTest.mouseClick(extras.install, Qt.MouseButton.LeftButton)
    assert not extras.install.isEnabled()
    driver.until(lambda: "minigrid is installed" in extras.progress.text(), "the installer's word")
    driver.until(lambda: extras._boxes["minigrid"].text() == "minigrid", "it is seen")
    assert extras.install.isHidden()


def test_a_gpu_is_offered_where_slurm_finds_one(qapp: Any) -> None:
    """On a machine without a GPU only a run that goes to a cluster can ask for one."""
    section = MachineSection()
    assert not section.gpu.isEnabled()
    section.site.setText("slurm:gpu")
    section.gpu.setChecked(True)
    draft = TrainDraft()
    section.write(draft)
    assert (draft.site, draft.gpu) == ("slurm:gpu", True)
    assert "--site slurm:gpu" in as_command(draft)
    again = MachineSection()
    again.read(draft)
    assert again.gpu.isChecked()
    again.site.setText("local")
    assert not again.gpu.isChecked()
