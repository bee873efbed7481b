"""A run of many seeds: killed, continued, and shown as what it is."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from qtpy.QtWidgets import QApplication
from support import harness
from support.trainer import Trainer, until

from gym_gui.models.series import Series
from gym_gui.resources.theming import ThemeManager
from gym_gui.widgets.chart_clock import ChartClock
from gym_gui.widgets.chart_grid import ChartGrid
from gym_gui.widgets.chart_lines import Line
from mosaic.config import build
from mosaic.curves.members import Member
from mosaic.curves.names import RETURN, TAGS
from mosaic.records import RunRecord

from .conftest import Driver, config_of

_RETURN = TAGS[RETURN]
_IQM = "IQM, 95 % CI"
_SEEDS = 64
_ITERATION = 512
_ENDLESS = 1_000_000 * _ITERATION


def _line(seed: int | None, group: str = "one") -> Line:
    steps = np.arange(5.0)
    return Line(Series(steps, steps, steps), f"seed {seed}", "#0072b2", group=group)


@pytest.fixture
def grid(qapp: QApplication) -> Iterator[ChartGrid]:
    """A grid of charts without a window."""
    themes = ThemeManager()
    grid = ChartGrid(themes, ChartClock(10), 0.0)
    yield grid
    for card in grid.cards.values():
        card.chart.close_chart()
    grid.deleteLater()
    themes.close()


def _show(qapp: QApplication, grid: ChartGrid, charts: dict[str, dict[str, Line]]) -> str:
    """Draw charts with their bands; returns what the legend says."""
    grid.show_curves(charts)
    while len(grid.cards) < len(charts):
        qapp.processEvents()
    grid.band.setCurrentText(_IQM)
    return grid.legend.text()


def test_the_legend_counts_seeds_and_not_their_mean(qapp: QApplication, grid: ChartGrid) -> None:
    """Losses of a run with three seeds are one curve, the mean; it is no fourth seed."""
    seeds = {f"run@{seed}": _line(seed) for seed in (1, 2, 3)}
    text = _show(qapp, grid, {_RETURN: seeds, "losses/value_loss": {"run": _line(None)}})
    assert "one (3 seeds" in text


def test_the_legend_has_no_entry_without_a_name(qapp: QApplication, grid: ChartGrid) -> None:
    """Means over all settings of a run are drawn, each as it is, and named as no configuration."""
    means = {f"run {run}": _line(None, group="") for run in (1, 2)}
    seeds = {f"run@{seed}": _line(seed) for seed in (1, 2, 3)}
    text = _show(qapp, grid, {_RETURN: seeds, "losses/value_loss": means})
    assert text.count("■") == 1
    assert "one (3 seeds" in text
    chart = grid.cards["losses/value_loss"].chart
    chart.draw()
    assert len(chart.curves_shown()) == 2
    assert chart.bands.shown == ()


def _submit(trainer: Trainer, **parameters: object) -> str:
    extras = {"algo_params": {"num_seeds": _SEEDS, **parameters}, "minimal_telemetry": True}
    config = config_of(
        "ppo_ondevice", "cleanrl", env_id="CartPole-v1", total_timesteps=_ENDLESS, extras=extras
    )
    return trainer.client.submit(config).run_id


def _saved_and_killed(trainer: Trainer, run_id: str) -> RunRecord:
    """Kill the worker with everything it started, once it has saved something."""

    def saved() -> object:
        return trainer.client.get(run_id).newest_checkpoint("full")

    # A program is compiled first, so the patience is that of a busy machine.
    until(saved, "a checkpoint", patience_s=600)
    worker = psutil.Process(trainer.supervisor(run_id)["pid"])
    for process in (*worker.children(recursive=True), worker):
        os.kill(process.pid, signal.SIGKILL)
    return trainer.client.wait(run_id)


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_sixty_four_seeds_are_killed_continued_and_drawn_with_their_interval(
    make_trainer: Callable[..., Trainer], open_window: Callable[..., Driver]
) -> None:
    """`kill -9` in the middle and continued: every seed ends with the bits of an undisturbed run
    and has a curve of its own, and the window draws their interquartile mean with its interval."""
    trainer = make_trainer().start()
    killed = _saved_and_killed(trainer, _submit(trainer, checkpoint_interval_s=0.01))
    assert killed.outcome == "failed"
    # However far it came: nothing here depends on the machine's speed.
    end = harness.newest_state(Path(killed.run_dir))["step"] + 4 * _ITERATION
    before = build.read_config(trainer.client.config(killed.run_id))
    continued = build.resume(before, killed, parameters={"stop_at": end})
    rest = trainer.client.submit(continued).run_id
    whole = _submit(trainer, stop_at=end)
    for run_id in (rest, whole):
        assert trainer.client.wait(run_id).outcome == "completed"
    states = [harness.newest_state(Path(trainer.client.get(one).run_dir)) for one in (rest, whole)]
    assert states[0]["step"] == states[1]["step"] == end
    for part in ("policy", "objects", "random"):
        assert harness.equal(states[0][part], states[1][part]), part
    tags = {Member(1 + index).tag(_RETURN) for index in range(_SEEDS)}
    assert tags <= {batch.tag for batch in trainer.client.metrics(whole)}

    driver = open_window(trainer.home)
    driver.connected()
    driver.until(lambda: whole in driver.services.store.runs, "the run in the table")
    driver.services.selection.select((whole,))
    driver.window.binder.trigger("analyse.compare")
    grid = driver.window.compare.grid
    driver.until(lambda: _RETURN in grid.cards, "the chart of the return")
    chart = grid.cards[_RETURN].chart
    driver.until(lambda: len(chart.curves_shown()) == _SEEDS, "a curve for each seed")
    grid.band.setCurrentText(_IQM)
    driver.until(lambda: len(chart.bands.shown) == 1, "one band")
    shown = chart.bands.shown[0].band
    assert shown.seeds == _SEEDS
    assert (shown.low <= shown.middle).all()
    assert (shown.middle <= shown.high).all()
    assert f"({_SEEDS} seeds)" in grid.legend.text()
