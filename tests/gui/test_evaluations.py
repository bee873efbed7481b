"""Evaluations in the window: the curve, one click to an episode, and inside it."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gym_gui.models.episodes import (
    Inside,
    best_of,
    first_difference,
    read_inside,
    read_judged,
    read_summary,
)

from .conftest import Driver, config_of

if TYPE_CHECKING:
    from support.trainer import Trainer


def _judged(step: int, *returns: float) -> dict[str, object]:
    scores = {"returns": list(returns), "low": min(returns), "high": max(returns)}
    recorded = [{"role": "best", "seed": 7, "return": max(returns), "file": f"step-{step}/b.json"}]
    return {"step": step, "deterministic": scores, "sampled": scores, "recorded": recorded}


def _inside(*actions: object) -> Inside:
    return read_inside({"actions": list(actions), "return": 1.0, "length": len(actions)})


def test_the_first_different_action_is_found() -> None:
    """Also where one episode only ends sooner; equal episodes have none."""
    assert first_difference(_inside(0, 1, 1), _inside(0, 1, 0)) == 2
    assert first_difference(_inside(0, 1), _inside(0, 1, 0)) == 2
    assert first_difference(_inside([0.5], [0.1]), _inside([0.5], [0.2])) == 1
    assert first_difference(_inside(0, 1), _inside(0, 1)) is None


def test_files_of_a_worker_are_read_as_far_as_they_make_sense() -> None:
    """A damaged file costs what is damaged in it, never the window."""
    found = [read_judged(_judged(step, *returns)) for step, *returns in ((5, 1, 3), (9, 2, 2))]
    assert [one.sure.mean for one in found if one] == [2.0, 2.0]
    # Of equals the later one, as the worker keeps it.
    assert best_of([one for one in found if one]) == 9
    assert "1 to 3" in found[0].text(best=False)
    assert found[0].recorded[0].path == "evaluations/step-5/b.json"
    assert read_judged({"step": "x"}) is None
    assert read_judged({"step": 1, "deterministic": {"returns": []}}) is None
    own = read_summary(
        {"returns": [4.0, 6.0], "episode_seeds": [1, None]},
        [f"videos/{name}.json" for name in ("episode-1", "episode-0", "episode-9", "x")],
    )
    assert [(one.path, one.seed) for one in own.recorded] == [
        ("videos/episode-0.json", 1),
        ("videos/episode-1.json", None),
    ]
    odd = read_inside({"scores": [[1, 2], [3]], "values": ["x", None], "terms": 3, "rate": 0})
    assert odd.scores.size == 0
    assert odd.rate > 0
    assert np.isnan(odd.lines["value"]).all()


@pytest.fixture
def evaluated(shared_trainer: "Trainer") -> Iterator[str]:
    """A short run whose policies were judged beside training; gone after the test."""
    parameters = {"eval_every": 1024, "eval_episodes": 3, "num_steps": 64}
    config = config_of(
        "ppo",
        "cleanrl",
        env_id="CartPole-v1",
        total_timesteps=2048,
        extras={"algo_params": parameters},
    )
    run_id = str(shared_trainer.client.submit(config).run_id)
    assert shared_trainer.ended(run_id).outcome == "completed"
    yield run_id
    shared_trainer.client.delete(run_id)


def test_from_a_point_of_the_curve_into_an_episode(driver: Driver, evaluated: str) -> None:
    """One click on a point shows its best episode; beside it, the same seed at another step."""
    driver.connected()
    driver.until(lambda: evaluated in driver.services.store.runs, "the run is listed")
    assert driver.run(evaluated).metrics["evaluation/best_step"] in (1024.0, 2048.0)
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(evaluated)
    panel = driver.window.run_panel
    panel.open_tab("evaluation")
    tab: Any = panel.tab("evaluation")
    driver.until(lambda: len(tab.evaluations) == 2, "both evaluations are read")
    points = tab.chart.points
    assert points.getData()[0].tolist() == [1024.0, 2048.0]
    assert [row.name for row in tab.spread.rows] == ["best actions", "sampled"]
    points.sigClicked.emit(points, [points.points()[0]], None)
    assert tab.said.text().startswith("step 1,024: mean return ")
    driver.until(lambda: tab.view.player.length > 1, "the best episode is loaded")
    inside = tab.view.inside
    # The picture before each action, and the last one.
    assert tab.view.player.length == inside.length + 1 == len(inside.actions) + 1
    tab.view.player.slider.setValue(3)
    assert f"step 3 · action {inside.actions[3]}" in tab.view.said.text()
    assert "value" in tab.view.said.text()
    tab.episodes.setCurrentIndex(3)
    driver.until(lambda: tab.beside.count() > 1, "the same seed of the other evaluation is offered")
    tab.beside.setCurrentIndex(tab.beside.count() - 1)
    driver.until(lambda: tab.jump.isEnabled(), "both episodes are loaded")
    assert tab.view.inside.seed == tab.other.inside.seed == 2_000_000_000
    step = first_difference(tab.view.inside, tab.other.inside)
    tab.jump_to_difference()
    if step is not None:
        assert tab.view.player.slider.value() == step
    if folder := os.environ.get("MOSAIC_TEST_PICTURES"):
        driver.spin(1)
        driver.window.grab().save(f"{folder}/evaluation.png")
