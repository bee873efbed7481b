"""From the form to a trained agent: what a person does who has never seen MOSAIC."""

import json
from pathlib import Path
from typing import Any

from qtpy.QtCore import QMimeData, QPointF, Qt, QUrl
from qtpy.QtGui import QDropEvent

from gym_gui.tabs.live_tab import ANALYTICS_BANNER

from .conftest import Driver


def test_train_watch_pause_and_resume(driver: Driver) -> None:
    """Fill in the form, train, see frames change and the curve grow, pause, resume, cancel."""
    form = driver.train_form()
    form.steps.set_value(50_000_000)
    form.notes.notes.setPlainText("to be watched")
    form.submit()
    driver.until(lambda: driver.services.selection.current.startswith("01"), "the run is there")
    run_id = driver.services.selection.current
    driver.reaches(run_id, "EXEC")
    driver.window.show_layout("watch")
    live = driver.window.run_panel.tab("live")
    # Of a run at work the agent is shown at once; until its first picture, why there is none.
    assert live.active
    if not live.frames_shown:
        assert live.banner.text == ANALYTICS_BANNER
    driver.until(lambda: live.frames_shown >= 3, "frames", 30)
    assert live.banner.text == ""
    seen = live.view.image.copy()
    driver.until(lambda: live.view.image != seen, "the picture changes")
    driver.window.run_panel.open_tab("overview")
    overview = driver.window.run_panel.tab("overview")
    driver.until(lambda: overview.chart.points_shown() > 2, "a curve", 30)
    driver.until(lambda: overview.tiles["Return"].number != "—", "a return")
    driver.window.binder.trigger("run.pause")
    driver.reaches(run_id, "PAUSE")
    driver.until(lambda: driver.run(run_id).checkpoints, "a paused run has a checkpoint")
    driver.window.binder.trigger("run.resume")
    driver.reaches(run_id, "EXEC")
    driver.services.link.ask(lambda client: client.cancel(run_id, grace_s=2.0))
    assert driver.reaches(run_id, "TERM").outcome == "cancelled"


def test_dry_run_writes_into_the_notes(driver: Driver) -> None:
    """A dry run starts nothing and leaves its result, with its time, beside the user's notes."""
    form = driver.train_form()
    form.notes.notes.setPlainText("mine")
    form.steps.set_value(1000)
    before = set(driver.services.store.runs)
    form.dry_run()
    driver.until(lambda: "dry run passed" in form.notes.results.toPlainText(), "the result")
    assert "nothing was launched" in form.notes.results.toPlainText()
    assert form.notes.notes.toPlainText() == "mine"
    assert set(driver.services.store.runs) == before


def test_form_is_made_from_the_script(driver: Driver) -> None:
    """Other algorithm, other fields; environments narrow to what it can act on."""
    form = driver.train_form()
    assert form.parameters.editor("clip_coef") is not None
    assert "CartPole-v1" in form.env.names
    form.algo.set_text("sac_continuous_action")
    driver.until(lambda: form.described == "sac_continuous_action", "the other script")
    assert form.parameters.editor("clip_coef") is None
    assert form.parameters.editor("tau") is not None
    assert "CartPole-v1" not in form.env.names
    assert "Pendulum-v1" in form.env.names
    assert form.env.text in form.env.names
    assert "Soft Actor-Critic" in form.help.toPlainText()


def test_wrong_values_are_marked_while_typing(driver: Driver) -> None:
    """A value out of range says so at once, and the run cannot be sent."""
    form = driver.train_form()
    editor = form.parameters.editor("gamma")
    editor.editor.setText("1.5")
    assert "at most 1" in editor.problem
    assert not form.bar.train.isEnabled()
    form.submit()
    assert "gamma" in form.banner.text
    editor.reset()
    assert form.bar.train.isEnabled()
    form.algo.set_text("ppoo")
    assert "did you mean 'ppo'" in form.algo.problem
    form.algo.set_text("ppo")


def test_several_seeds_make_several_runs(driver: Driver) -> None:
    """Seeds times N gives one run a seed."""
    form = driver.train_form()
    form.steps.set_value(512)
    form.seeds.set_value(2)
    form.seed.set_value(40)
    assert form.bar.train.text() == "Train 2 seeds"
    form.name.setText("twins")
    form.submit()

    def twins() -> list[Any]:
        runs = driver.services.store.runs.values()
        return [run for run in runs if run.run_name.startswith("twins") and run.version]

    driver.until(lambda: len(twins()) == 2, "two runs")
    assert {run.seed for run in twins()} == {40, 41}
    for run in twins():
        driver.reaches(run.run_id, "TERM")


def test_half_filled_form_survives_the_window(open_window: Any, shared_trainer: Any) -> None:
    """What was typed is there again in the next window, and so are the table's columns."""
    first = open_window(shared_trainer.home)
    first.connected()
    form = first.train_form()
    form.parameters.editor("num_envs").set_value(7)
    form.name.setText("half")
    first.window.runs_panel.table.setColumnHidden(2, True)
    first.window.close()
    second = open_window(shared_trainer.home)
    second.connected()
    again = second.window.launch.form("train")
    second.until(lambda: again.parameters.effective("num_envs") == 7, "the value")
    assert again.name.text() == "half"
    assert second.window.runs_panel.table.isColumnHidden(2)
    second.window.runs_panel.table.setColumnHidden(2, False)
    again.reset()
    again.name.clear()


def test_config_dropped_on_the_window_fills_the_form(driver: Driver, tmp_path: Path) -> None:
    """A config file dropped anywhere lands in the form; another file is refused with words."""
    path = tmp_path / "mine.json"
    path.write_text(
        json.dumps({"algo": "dqn", "env_id": "Acrobot-v1", "extras": {"algo_params": {"tau": 0.5}}})
    )
    for file in (path, tmp_path / "strange.txt"):
        mime = QMimeData()
        mime.setUrls([QUrl.fromLocalFile(str(file))])
        event = QDropEvent(
            QPointF(5, 5),
            Qt.DropAction.CopyAction,
            mime,
            Qt.MouseButton.LeftButton,
            Qt.KeyboardModifier.NoModifier,
        )
        driver.window.dropEvent(event)
    form = driver.window.launch.form("train")
    driver.until(lambda: form.parameters.effective("tau") == 0.5, "the parameter")
    assert (form.algo.text, form.env.text) == ("dqn", "Acrobot-v1")
    assert any("strange.txt" in notice.text for notice in driver.services.notices.history)


def test_clone_brings_a_run_back_into_the_form(driver: Driver, trained: list[str]) -> None:
    """Cloning fills the form with exactly what the run was made of."""
    driver.window.runs_panel.show_run(trained[1])
    driver.until(lambda: driver.services.selection.current == trained[1], "selected")
    driver.window.binder.trigger("run.clone")
    form = driver.window.launch.form("train")
    driver.until(lambda: form.seed.text() == "2", "the seed")
    assert form.steps.text() == "4096"


def test_trained_policy_is_evaluated_and_replayed(driver: Driver, trained: list[str]) -> None:
    """A finished run's policy acts, leaves a video, and the video plays in the replay tab."""
    driver.window.runs_panel.show_run(trained[0])
    driver.until(lambda: driver.services.selection.current == trained[0], "selected")
    driver.window.binder.trigger("run.evaluate")
    form = driver.window.launch.form("evaluate")
    driver.until(lambda: form.source.run_id == trained[0], "the run is chosen")
    form.episodes.set_value(2)
    form.submit()

    def evaluation() -> Any:
        runs = driver.services.store.runs.values()
        return next((r for r in runs if r.mode == "policy_eval" and r.version), None)

    run_id = driver.until(evaluation, "the evaluation").run_id
    assert driver.reaches(run_id, "TERM").outcome == "completed"
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(run_id)
    driver.window.run_panel.open_tab("replay")
    player = driver.window.run_panel.tab("replay").player
    driver.until(lambda: player.slider.maximum() > 3, "the video")
    player.toggle()
    driver.until(lambda: player.slider.value() > 1, "it plays")
    player.stop()


def test_training_goes_on_from_a_checkpoint(driver: Driver, trained: list[str]) -> None:
    """Continue training makes a new run linked to the old one, from its newest checkpoint."""
    driver.window.runs_panel.show_run(trained[0])
    driver.until(lambda: driver.services.selection.current == trained[0], "selected")
    driver.window.binder.trigger("run.continue")
    form = driver.window.launch.form("resume")
    driver.until(lambda: form.source.run_id == trained[0], "the run is chosen")
    form.steps.set_value(8192)
    form.submit()

    def continued() -> Any:
        runs = driver.services.store.runs.values()
        return next((r for r in runs if r.mode == "resume_training" and r.version), None)

    run = driver.until(continued, "the new run")
    assert run.parent_run_id == trained[0]
    ended = driver.reaches(run.run_id, "TERM")
    assert ended.outcome == "completed", ended.reason
    assert ended.progress.step > 4096


def test_a_file_of_ones_own_is_continued_without_a_run(
    driver: Driver, trained: list[str], tmp_path: Path
) -> None:
    """A policy from elsewhere needs no run: the file says what it is of, and the run shows it."""
    run_dir = Path(driver.run(trained[0]).run_dir)
    own = tmp_path / "mine.cleanrl_model"
    own.write_bytes(next(run_dir.glob("checkpoints/*.cleanrl_model")).read_bytes())
    form = driver.window.launch.show_form("resume", "cleanrl")
    form.restore({"file": str(own)})
    form.steps.set_value(512)
    assert form.start.isEnabled()
    form.submit()

    def continued() -> Any:
        runs = driver.services.store.runs.values()
        return next((r for r in runs if r.run_name == f"from {own.name}" and r.version), None)

    run = driver.until(continued, "the new run")
    ended = driver.reaches(run.run_id, "TERM")
    assert ended.outcome == "completed", ended.reason
    assert (ended.algo, ended.env_id, ended.parent_run_id) == ("ppo", "CartPole-v1", "")
    assert ended.progress.step == 512
    form.restore({})
    driver.window.launch.show_form("train", "cleanrl")


def test_script_runs_as_one_run(driver: Driver, tmp_path: Path) -> None:
    """A shell script says what it is and runs as one run."""
    path = tmp_path / "phases.sh"
    path.write_text(
        "#!/bin/sh\n# @description: says hello\n# @phases: one\necho hello-from-script\n"
    )
    driver.window.show_layout("train")
    form = driver.window.launch.show_form("script", "cleanrl")
    form.from_file.setChecked(True)
    form.path.setText(str(path))
    driver.until(lambda: form.start.isEnabled(), "the script was read")
    assert "says hello" in form.facts.text()
    form.submit()

    def script() -> Any:
        runs = driver.services.store.runs.values()
        return next((r for r in runs if r.mode == "script" and r.version), None)

    run = driver.until(script, "the run")
    assert driver.reaches(run.run_id, "TERM").outcome == "completed"


def test_refusal_of_the_daemon_is_shown_in_the_form(driver: Driver) -> None:
    """What only the daemon can know is said in the form, with the field's name."""
    form = driver.train_form()
    form.env.set_choices(())
    form.env.set_text("Nowhere-v9")
    form.submit()
    driver.until(lambda: "refused" in form.banner.text, "the refusal")
    assert "env_id" in form.banner.text
