"""Small things that cost people time: each was seen in the window once."""

from typing import Any

import numpy as np

from gym_gui.models.series import Series
from gym_gui.models.train_draft import TrainDraft
from gym_gui.widgets.chart import Chart
from gym_gui.widgets.chart_lines import Line, Look
from mosaic.config.model import TrainRunConfig
from mosaic.errors import Problem
from mosaic.runs.ids import new_run_id

from .conftest import Driver


def test_a_form_that_nobody_has_touched_is_accepted(driver: Driver) -> None:
    """Whatever worker is chosen: what its form holds at first is a run that the daemon takes."""
    launch = driver.window.launch
    for actor in [one for one in launch.actors if one.available and one.trains_algorithms]:
        form: Any = launch.show_form("train", actor.worker_type)
        driver.until(lambda form=form: form.described, f"the form of {actor.worker_type}")
        form.load(TrainDraft(worker=actor.worker_type, algo=form.algo.text, env_id=form.env.text))
        driver.until(lambda form=form: not form.problems(), f"{actor.worker_type}: no problems")
        [config] = form.experiment.configs(form.draft())
        assert _refusals(driver, config) == [], actor.worker_type


def _refusals(driver: Driver, config: TrainRunConfig) -> list[Problem]:
    answers: list[Any] = []
    document = config.document()
    driver.services.link.ask(
        lambda client: client.validate(document), answers.append, answers.append
    )
    driver.until(lambda: answers, "the daemon's answer")
    found: list[Problem] = answers[0]
    return found


def test_the_axis_of_a_flat_curve_has_different_numbers(driver: Driver) -> None:
    """A constant of 200 is not 200 at each line of the grid."""
    chart = Chart(driver.services.themes, driver.services.clock)
    steps = np.arange(5.0)
    line = Line(Series(steps, np.full(5, 200.0), steps), "flat", "#336699")
    chart.set_lines({"flat": line}, Look())
    chart.resize(500, 300)
    chart.show()
    driver.until(lambda: chart.points_shown() == 5, "the curve")
    axis = chart.plot.getAxis("left")
    low, high = chart.plot.getViewBox().viewRange()[1]
    for spacing, values in axis.tickValues(low, high, 300):
        texts = axis.tickStrings(values, 1.0, spacing)
        assert len(set(texts)) == len(texts), texts
    chart.close_chart()
    chart.close()
    chart.deleteLater()


def test_seeds_without_a_name_are_told_apart_and_keep_their_order() -> None:
    """Each name says its seed, and runs of one moment are listed as they were sent."""
    names = [config.run_name for config in TrainDraft(seeds=3, total_timesteps=512).configs()]
    assert [name[-2:] for name in names] == ["s1", "s2", "s3"]
    ids = [new_run_id() for _ in range(50)]
    assert ids == sorted(ids)


def test_a_run_at_work_is_not_hidden_behind_an_empty_tab(
    driver: Driver, trained: list[str]
) -> None:
    """Who looked at a replay and starts a run sees what it does, not a replay without episodes."""
    window = driver.window
    window.show_layout("watch")
    window.runs_panel.show_run(trained[0])
    driver.until(lambda: "replay" in window.run_panel.shown, "the tabs of a finished run")
    window.run_panel.open_tab("replay")
    driver.until(lambda: window.run_panel.tab("replay").active, "the replay")
    form = driver.train_form()
    form.steps.set_value(50_000_000)
    form.submit()
    live = window.run_panel.tab("live")
    driver.until(lambda: live.active, "the new run's live view")


def test_the_menus_are_where_people_look(driver: Driver) -> None:
    """Settings are not a kind of help; what MOSAIC is, and which version, is."""
    bar = driver.window.menuBar()
    assert bar is not None
    entries = {
        top.text().replace("&", ""): [one.text().replace("&", "") for one in top.menu().actions()]
        for top in bar.actions()
        if top.menu() is not None
    }
    assert any("Settings" in text for text in entries["View"])
    assert any("About" in text for text in entries["Help"])
    assert not any("Settings" in text for text in entries["Help"])
