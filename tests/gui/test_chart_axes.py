"""Charts over episodes, from the beginning, with intervals, and one for each value of a key."""

from collections.abc import Iterator

import numpy as np
import pytest

from gym_gui.background.joined_feeds import continued
from gym_gui.models.facets import chart_order, facet_keys, facet_of, facet_tag, split_facet
from gym_gui.models.run_store import RunStore
from gym_gui.models.series import Series, joined
from gym_gui.widgets.chart import Chart
from gym_gui.widgets.chart_lines import Line, Look, drawn_line
from mosaic.records import RunRecord
from mosaic.statistics.grouping import Asked

from .conftest import Driver


def _series(steps: list[float], values: list[float]) -> Series:
    series = Series()
    series.extend(steps, values, steps)
    return series


@pytest.fixture
def chart(driver: Driver) -> Iterator[Chart]:
    """A chart of its own; nothing of the window is changed."""
    chart = Chart(driver.services.themes, driver.services.clock, "return")
    yield chart
    chart.close_chart()
    chart.deleteLater()


def test_a_curve_is_drawn_over_the_episodes_that_were_finished(chart: Chart) -> None:
    """A step becomes the number of episodes at it; a run that counts none is left out."""
    counted = _series([0, 100], [0, 10])
    curve = _series([0, 50, 100], [1.0, 2.0, 3.0])
    lines = {"a": Line(curve, "a", "#1f77b4", episodes=counted), "b": Line(curve, "b", "#ff7f0e")}
    chart.set_lines(lines, Look(smoothing=0, by_episodes=True))
    chart.draw()
    assert chart.axes_shown[0] == "episodes"
    assert {key: x.tolist() for key, (x, _) in chart.curves_shown().items()} == {"a": [0, 5, 10]}
    chart.set_lines(lines, Look(smoothing=0))
    chart.draw()
    assert set(chart.curves_shown()) == {"a", "b"}


def test_an_interval_is_drawn_around_the_curve_it_belongs_to(chart: Chart) -> None:
    """The ends of `evaluation/return` are an area around it, and go with it."""
    tags = ("evaluation/return", "evaluation/return_low", "evaluation/return_high")
    curves = {
        tag: _series([1, 2], [value, value]) for tag, value in zip(tags, (2, 1, 3), strict=True)
    }
    line = drawn_line(Line(curves[tags[0]], "a", "#1f77b4"), tags[0], curves)
    assert line.ends == (curves[tags[1]], curves[tags[2]])
    chart.set_lines({"a": line}, Look())
    chart.draw()
    assert chart.ends.count == 1
    chart.set_lines({}, Look())
    chart.draw()
    assert chart.ends.count == 0


def test_a_continued_run_begins_with_the_curve_it_continues() -> None:
    """What the parent did after the checkpoint is left out; nothing is drawn twice."""
    parent = _series([10, 20, 30, 40], [1, 2, 3, 4])
    child = _series([30, 40, 50], [30, 40, 50])
    whole = joined([(parent, 25)], child)
    assert whole.steps.tolist() == [10, 20, 30, 40, 50]
    assert whole.values.tolist() == [1, 2, 30, 40, 50]
    assert np.array_equal(child.steps, [30, 40, 50])


def test_the_chain_of_continued_runs_is_followed_and_never_goes_in_circles() -> None:
    """A run, the one it continues, and so on; a repetition or an evaluation joins nothing."""
    store = RunStore()
    resumed = {"mode": "resume_training"}
    for run in (
        RunRecord(run_id="a"),
        RunRecord(run_id="b", parent_run_id="a", parent_step=10, **resumed),
        RunRecord(run_id="c", parent_run_id="b", parent_step=20, **resumed),
        RunRecord(run_id="e", parent_run_id="c", parent_step=5, mode="policy_eval"),
        RunRecord(run_id="x", parent_run_id="y", parent_step=1, **resumed),
        RunRecord(run_id="y", parent_run_id="x", parent_step=1, **resumed),
    ):
        store.runs[run.run_id] = run
    assert continued(store, "c") == (("b", 20), ("a", 10))
    assert continued(store, "a") == continued(store, "e") == ()
    assert len(continued(store, "x")) == 2


def test_facets_are_the_keys_in_which_runs_differ() -> None:
    """Environment, algorithm or any setting; the facets of a curve stay beside each other."""
    asked = {
        "1": Asked("ppo", "CartPole-v1", {"lr": 1e-3, "n": 4}),
        "2": Asked("ppo", "Acrobot-v1", {"n": 4}),
    }
    assert facet_keys(asked) == ["environment", "lr"]
    assert [facet_of(one, "lr") for one in asked.values()] == ["lr=0.001", "lr=default"]
    assert split_facet(facet_tag("charts/SPS", "lr=0.001")) == ("charts/SPS", "lr=0.001")
    tags = [facet_tag("charts/SPS", "a"), facet_tag("charts/episodic_return", "b"), "losses/x"]
    assert sorted([*tags, facet_tag("charts/episodic_return", "a")], key=chart_order) == [
        facet_tag("charts/episodic_return", "a"),
        tags[1],
        tags[0],
        tags[2],
    ]
