"""Alarms in the window: said in words, marked on charts, with the way back."""

from dataclasses import replace

import numpy as np

from gym_gui.models.health import marks, source_step
from gym_gui.models.series import Series
from gym_gui.tabs.overview_tab import OverviewTab
from gym_gui.widgets.chart import Chart
from gym_gui.widgets.chart_lines import Line, Look
from mosaic.config import build
from mosaic.presenting.alarms import alarm_text, proposed_change, way_back
from mosaic.records import AlarmRecord, CheckpointRecord, RunRecord

from .conftest import Driver

ILL = RunRecord(
    run_id="01ARZ3NDEKTSV4RRFFQ69G5FAV",
    run_name="ill",
    run_dir="/runs/ill",
    checkpoints=(
        CheckpointRecord(path="checkpoints/a.state", step=500, sha256="", kind="full", saved_at=1),
        CheckpointRecord(path="checkpoints/b.state", step=900, sha256="", kind="full", saved_at=2),
    ),
    alarms=(
        AlarmRecord(
            rule="kl-explosion",
            step=800,
            evidence="the policy moves by 5",
            advice="lower learning_rate",
            checkpoint="checkpoints/a.state",
            checkpoint_step=500,
            raised_at=3.0,
        ),
    ),
)


def test_the_overview_says_what_is_wrong_and_offers_the_way_back(driver: Driver) -> None:
    """The alarm's name, evidence and advice are read at once; a healthy run has no such place."""
    tab = OverviewTab(driver.services)
    tab.set_run(ILL)
    tab.activate()
    try:
        said = "kl-explosion since step 800: the policy moves by 5. Try: lower learning_rate."
        assert tab.health.text == said
        assert not tab.health.isHidden()
        assert tab.health.action == "Fork from step 500"
        tab.set_run(RunRecord(run_id="01ARZ3NDEKTSV4RRFFQ69G5FAW"))
        assert tab.health.isHidden()
    finally:
        tab.deactivate()
        tab.chart.close_chart()
        tab.deleteLater()


def test_the_advice_of_an_alarm_is_a_setting_to_try() -> None:
    """A tenth of the learning rate after an explosion; nothing where the script has no such one."""
    known = {"learning_rate": 1.0, "ent_coef": 0.0}
    assert str(proposed_change(ILL, known.get)) == "learning_rate 1 → 0.1"
    collapsed = replace(ILL, alarms=(replace(ILL.alarms[0], rule="entropy-collapse"),))
    # An entropy bonus of 0 cannot be multiplied; the next advice counts.
    assert str(proposed_change(collapsed, known.get)) == "learning_rate 1 → 0.1"
    assert str(proposed_change(collapsed, {"ent_coef": 0.01}.get)) == "ent_coef 0.01 → 0.1"
    assert proposed_change(ILL, {}.get) is None
    slow = replace(ILL, alarms=(replace(ILL.alarms[0], rule="speed-collapse"),))
    assert proposed_change(slow, known.get) is None


def test_a_chart_marks_where_an_alarm_began(driver: Driver) -> None:
    """Over steps, not over time, and once where several curves belong to one run."""
    chart = Chart(driver.services.themes, driver.services.clock, "marked")
    steps = np.arange(0.0, 1000.0, 100.0)
    series = Series(steps, steps, steps)
    lines = {name: Line(series, name, "#0072b2", marks=marks(ILL)) for name in ("a", "b")}
    try:
        chart.set_lines(lines, Look(smoothing=0.0))
        chart.draw()
        assert chart.marks.shown == ((800, "kl-explosion"),)
        chart.set_lines(lines, Look(smoothing=0.0, by_time=True))
        chart.draw()
        assert chart.marks.shown == ()
    finally:
        chart.close_chart()
        chart.deleteLater()


def test_where_a_continued_run_begins_is_known() -> None:
    """The step of the chosen checkpoint, of the newest for a folder, of none for other runs."""
    before = build.train(build.Worker("cleanrl"), "ppo", env_id="CartPole-v1")
    named = build.resume(before, ILL, checkpoint="/runs/ill/checkpoints/a.state")
    assert source_step(ILL, named) == 500
    assert source_step(ILL, build.resume(before, ILL)) == 900
    assert source_step(ILL, build.resume(before, ILL, checkpoint="/elsewhere/x.state")) is None
    assert source_step(ILL, before) is None
    assert source_step(None, named) is None
    assert (way_back(ILL), way_back(RunRecord(run_id="x"))) == (500, None)
    assert alarm_text(RunRecord(run_id="x")) == ""
