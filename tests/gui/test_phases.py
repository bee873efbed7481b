"""Curricula and phases are built in the form, and their curves follow each other."""

import json
from typing import Any

import numpy as np
import pytest
from qtpy.QtGui import QGuiApplication

from gym_gui.forms.curriculum_section import CurriculumSection
from gym_gui.forms.phase_list import PhaseCard
from gym_gui.forms.script_form import ScriptForm
from gym_gui.models.curriculum import Stage, schedule, summary
from gym_gui.models.phases import phase_marks, read_settings, settings_text
from gym_gui.models.series import Series, parted, smooth_pieces
from gym_gui.models.train_draft import TrainDraft
from gym_gui.widgets.chart_lines import Line
from mosaic.config.build import read_config
from mosaic.records import RunEvent

from .conftest import Driver

ARGUMENTS: list[dict[str, Any]] = [
    {"name": "learning_rate", "type": "float", "default": 1e-3, "range": {"low": 0, "high": 1}},
    {"name": "anneal_lr", "type": "bool", "default": True},
    {"name": "env_id", "type": "str", "default": "x"},
]


@pytest.mark.parametrize(
    ("typed", "values", "problem"),
    [
        ("", {}, ""),
        ("learning_rate=1e-4; anneal-lr=false", {"learning_rate": 1e-4, "anneal_lr": False}, ""),
        ("learning_rate=7", {}, "at most 1"),
        ("learnin_rate=1e-4", {}, "did you mean 'learning_rate'"),
        ("learning_rate", {}, "name=value"),
        ("env_id=CartPole-v1", {}, "has no setting 'env_id'"),
    ],
)
def test_settings_of_a_phase_are_checked_as_they_are_typed(
    typed: str, values: dict[str, object], problem: str
) -> None:
    """Names, ranges and what has a field of its own; what is right can be typed back."""
    found, said = read_settings(typed, ARGUMENTS, "ppo")
    assert found == values
    assert (problem in said) if problem else not said
    assert read_settings(settings_text(found), ARGUMENTS, "ppo")[0] == values


def test_a_stage_reads_conditions_that_were_written_out() -> None:
    """A condition of a file fills the same fields, and the last stage has none."""
    first = Stage.from_fields(
        {"env_id": "A", "steps": 500, "condition": "episode_return >= 0.8|steps>=300"}
    )
    assert first == Stage("A", 300, None, 0.8)
    assert schedule([first, Stage("B", 7)]) == [
        {"env_id": "A", "steps": 300, "episode_return": 0.8},
        {"env_id": "B"},
    ]
    assert summary([first, Stage("B", 7)]) == (
        "1. A until 300 steps or a return of 0.8\n2. B to the end of the run"
    )


def test_one_phase_says_nothing_about_the_next_ones_curve() -> None:
    """Smoothing begins again with each phase, and no line is drawn from one to the next."""
    steps = np.arange(1.0, 9.0)
    line = Line(
        Series(steps, np.array([0.0] * 4 + [100.0] * 4), steps),
        "a",
        "#000000",
        phases=((0.0, "small"), (4.0, "large")),
    )
    starts = line.piece_starts()
    assert starts == [4]
    smoothed = smooth_pieces(line.series.values, 0.9, starts)
    np.testing.assert_allclose(smoothed, line.series.values)
    x, y = parted(steps, smoothed, np.arange(8), starts)
    assert np.isnan(y[4])
    assert x[4] == 4.5
    assert np.isfinite(np.delete(y, 4)).all()


def test_marks_are_made_of_what_the_worker_said() -> None:
    """Phases of a script and stages of a curriculum, at their steps; other events are none."""
    said: list[dict[str, Any]] = [
        {"event": "phase_started", "name": "warm up", "step": 0},
        {"event": "curriculum_stage", "env_id": "Room-v0", "step": 512, "steps": 3},
        {"event": "note", "step": 600},
        {"event": "phase_started", "name": "of an earlier release"},
    ]
    events = [
        RunEvent(seq=place, at=0.0, kind="worker_note", state="EXEC", data=data)
        for place, data in enumerate(said)
    ]
    assert phase_marks(events) == ((0.0, "warm up"), (512.0, "Room-v0"))


# ---------------------------------------------------------------- in the window


def _script_form(driver: Driver) -> ScriptForm:
    driver.window.show_layout("train")
    form = driver.window.launch.show_form("script", "cleanrl")
    assert isinstance(form, ScriptForm)
    form.restore({"way": "phases", "phases": [{"name": "warm up", "steps": "512"}]})
    [card] = form.phases.cards
    driver.until(lambda: card.algo.names and card.choice.description, "the algorithms")
    return form


def _fill(driver: Driver, card: PhaseCard, **texts: str) -> None:
    usual = {"algo": "ppo", "env_id": "CartPole-v1", "steps": "512", "settings": "", **texts}
    card.type_texts({**card.texts(), **usual})
    driver.until(lambda: card.choice.name == usual["algo"], "the algorithm is known")


def test_phases_are_built_trained_and_drawn_one_after_the_other(driver: Driver) -> None:
    """No file is written: what is wrong is said while typing, the script is shown, the run
    trains both phases, and its curve is interrupted where the second one begins."""
    form = _script_form(driver)
    small = "num_envs=2; num_steps=64; num_minibatches=2"
    first = form.phases.cards[0]
    _fill(driver, first, settings="num_env=2")
    assert "did you mean 'num_envs'" in form.facts.text()
    assert not form.start.isEnabled()
    assert not form.text.toPlainText()
    _fill(driver, first, settings=small)
    second = form.phases.append()
    driver.until(lambda: second.algo.names, "the algorithms of the second phase")
    _fill(driver, second, name="main", settings="learning_rate=1e-4", begins="continued")
    driver.until(lambda: form.start.isEnabled(), "the form is complete")
    # It continues the phase before, so these two follow from there.
    assert not second.algo.isEnabled()
    first.env.set_text("Acrobot-v1")
    driver.until(lambda: second.env.text == "Acrobot-v1", "the second phase follows the first")
    first.env.set_text("CartPole-v1")
    script = form.text.toPlainText()
    assert "@phases warm up, main" in script
    assert '--resume "$MOSAIC_RUN_DIR/1-warm-up"' in script
    assert "--total-timesteps 1024" in script
    form.submit()
    runs = driver.services.store.runs

    def accepted() -> Any:
        made = (run for run in runs.values() if run.run_name == "warm up → main" and run.version)
        return next(made, None)

    run = driver.until(accepted, "the daemon has accepted the run")
    ended = driver.reaches(run.run_id, "TERM")
    assert ended.outcome == "completed", ended.reason
    assert ended.progress.step == 1024
    _see_both_phases(driver, run.run_id)
    _clone_is_the_same(driver, run.run_id, script)
    form.restore({"way": "phases", "phases": [{"name": "phase 1", "steps": "512"}]})


def _see_both_phases(driver: Driver, run_id: str) -> None:
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(run_id)
    panel = driver.window.run_panel
    panel.open_tab("charts")
    tab: Any = panel.tab("charts")
    driver.until(lambda: tab.grid.cards and tab.grid.complete, "the charts")
    # One that has a point at each report of both phases.
    chart = tab.grid.cards["charts/SPS"].chart

    def interrupted() -> bool:
        drawn = chart.curves_shown().values()
        return [int(np.isnan(y).sum()) for _, y in drawn] == [1]

    driver.until(interrupted, "the curve of each phase is its own")
    assert [text for _, text in chart.phases.shown] == ["warm up", "main"]
    assert chart.phases.shown[1][0] == 512.0


def _clone_is_the_same(driver: Driver, run_id: str, script: str) -> None:
    """Cloning opens the form with the same phases, not an ordinary training."""
    driver.services.selection.select((run_id,))
    driver.window.forms.clone()
    form = driver.window.launch.form("script")
    assert isinstance(form, ScriptForm)
    driver.until(lambda: form.text.toPlainText() == script, "the same script")


def test_cards_are_moved_and_removed(driver: Driver) -> None:
    """The order is changed by the arrows, the last card stays, and the first begins fresh."""
    form = _script_form(driver)
    form.restore({"way": "phases", "phases": [{"name": name} for name in ("a", "b", "c")]})
    names = lambda: [card.name.text() for card in form.phases.cards]  # noqa: E731
    a, b, c = form.phases.cards
    up, _, gone = form.phases.buttons_of(c)
    c.begins.setCurrentIndex(1)
    up.click()
    assert names() == ["a", "c", "b"]
    up.click()
    assert names() == ["c", "a", "b"]
    assert not up.isEnabled()
    assert c.begins.currentData() == "fresh"
    assert c.steps.accessibleName() == "Steps of phase 1"
    form.phases.buttons_of(a)[2].click()
    form.phases.buttons_of(b)[2].click()
    assert names() == ["c"]
    assert not gone.isEnabled()
    form.restore({"way": "phases", "phases": [{"name": "phase 1", "steps": "512"}]})


def test_a_curriculum_is_built_in_the_train_form(driver: Driver) -> None:
    """Stages with what ends them, checked while typing, shown as they will be, and accepted."""
    form = driver.train_form()
    section: CurriculumSection = form.curriculum
    _choose(section, "own")
    first, second = section.stages.cards
    assert first.env.text == "CartPole-v1"
    assert "choose an environment" in " ".join(form.problems())
    assert not form.bar.train.isEnabled()
    # By keyboard the stages come before what is below them.
    driver.window.show_layout("train")
    driver.until(first.env.combo.isVisible, "the stages are in sight")
    driver.window.activateWindow()
    section.kind.setFocus()
    driver.window.focusNextChild()
    focus = driver.window.focusWidget()
    assert focus is not None
    assert focus.accessibleName() == "environment of stage 1"
    first.env.set_text("MiniGrid-Empty-5x5-v0")
    second.env.set_text("Pendulum-v1")
    assert "choose" not in " ".join(section.problems)
    assert form.problems(), "one agent cannot act in both"
    second.env.set_text("MiniGrid-Empty-6x6-v0")
    first.steps.setText("many")
    assert "stage 1" in " ".join(form.problems())
    first.steps.setText("400")
    first.reached.setText("0.9")
    assert form.problems() == []
    # The run is named and judged by the environment in which it ends.
    assert form.env.text == "MiniGrid-Empty-6x6-v0"
    assert not form.env.isEnabled()
    assert "curriculum" in form.draft().requirements
    form.bar.copy("JSON")
    clipboard = QGuiApplication.clipboard()
    assert clipboard is not None
    document = json.loads(clipboard.text())
    stages = document["metadata"]["worker"]["config"]["extras"]["curriculum_schedule"]
    assert stages == [
        {"env_id": "MiniGrid-Empty-5x5-v0", "steps": 400, "episode_return": 0.9},
        {"env_id": "MiniGrid-Empty-6x6-v0"},
    ]
    problems: list[Any] = []
    driver.services.link.ask(
        lambda client: client.validate(document), lambda found: problems.append(found)
    )
    driver.until(lambda: problems, "the daemon's answer")
    assert problems == [[]]
    section.stages.buttons_of(second)[0].click()
    assert form.env.text == "MiniGrid-Empty-5x5-v0"
    _comes_back(driver, form, document)
    form.load(TrainDraft())
    assert form.draft().curriculum_schedule == ""
    assert form.env.isEnabled()


def _choose(section: CurriculumSection, kind: str) -> None:
    section.kind.setCurrentIndex(section.kind.findData(kind))


def _comes_back(driver: Driver, form: Any, document: dict[str, Any]) -> None:
    """A clone and a stored form show the same stages, also what was typed wrongly."""
    driver.window.forms.load_config(read_config(document))
    driver.until(lambda: form.described == "ppo", "the form is ready")
    cards = form.curriculum.stages.cards
    assert [card.env.text[-6:] for card in cards] == ["5x5-v0", "6x6-v0"]
    assert cards[0].reached.text() == "0.9"
    cards[0].episodes.setText("3x")
    kept = json.loads(json.dumps(form.content()))
    form.load(TrainDraft())
    form.restore(kept)
    again = form.curriculum.stages.cards
    assert again[0].episodes.text() == "3x"
    assert form.draft().curriculum_schedule == [
        {"env_id": "MiniGrid-Empty-5x5-v0", "steps": 400, "episode_return": 0.9},
        {"env_id": "MiniGrid-Empty-6x6-v0"},
    ]


def test_a_preset_is_chosen_and_an_algorithm_that_follows_none_says_so(driver: Driver) -> None:
    """A preset shows where it leads; algorithms that make their environments offer nothing."""
    form = driver.train_form()
    section: CurriculumSection = form.curriculum
    _choose(section, "BABYAI_DOORKEY_CURRICULUM")
    assert form.env.text == "MiniGrid-DoorKey-16x16-v0"
    assert form.draft().curriculum_schedule == "BABYAI_DOORKEY_CURRICULUM"
    form.algo.set_text("ppo_atari")
    driver.until(lambda: form.described == "ppo_atari", "the other algorithm")
    assert not section.kind.isEnabled()
    assert form.draft().curriculum_schedule == ""
    form.algo.set_text("ppo")
    driver.until(lambda: form.described == "ppo", "the first algorithm again")
    assert section.kind.isEnabled()
    form.load(TrainDraft())
