"""Charts: what they show, how they are compared, what leaves them as a file."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qtpy.QtCore import QEvent
from qtpy.QtGui import QImage
from qtpy.QtWidgets import QApplication

from gym_gui.models.evaluation import evaluation_text
from gym_gui.models.series import Series, smooth
from gym_gui.widgets.chart import Chart
from gym_gui.widgets.chart_bands import KINDS
from gym_gui.widgets.chart_lines import Line, Look
from gym_gui.widgets.legend_list import tell_apart
from mosaic.presenting import formatting
from mosaic.statistics.curves import band

from .conftest import Driver, config_of

_RETURN = "charts/episodic_return"


@pytest.mark.parametrize("weight", [0.01, 0.6, 0.9, 0.99])
def test_smoothing_is_the_running_mean_it_says(weight: float) -> None:
    """However it is computed, a smoothed curve is the plain recursion; gaps are bridged."""
    values = np.random.default_rng(3).normal(size=5000)
    values[[0, 7, 8, 4000]] = np.nan
    last, share, expected = 0.0, 0.0, []
    for value in values.tolist():
        if value == value:
            last, share = weight * last + (1 - weight) * value, weight * share + 1 - weight
        expected.append(last / share if share else value)
    np.testing.assert_allclose(smooth(values, weight), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("value", "spacing", "text"),
    [
        (20_000, 5000, "20k"),
        (15_500, 500, "15.5k"),
        (1_200_000, 200_000, "1.2M"),
        (0.00025, 0.00005, "0.00025"),
        (150, 50, "150"),
        (-0.4, 0.2, "-0.4"),
        (0, 1, "0"),
    ],
)
def test_numbers_beside_an_axis_are_short(value: float, spacing: float, text: str) -> None:
    """An axis says 20k and 1.2M, never 1.2e+06."""
    assert formatting.tick(value, spacing) == text


def _compare(driver: Driver, ids: list[str]) -> Any:
    driver.services.selection.select(tuple(ids))
    driver.window.binder.trigger("analyse.compare")
    grid = driver.window.compare.grid
    driver.until(lambda: _RETURN in grid.cards, "the chart of the return")
    card = grid.cards[_RETURN]
    driver.until(lambda: len(card.chart.curves_shown()) == len(ids), "a curve a run")
    driver.until(lambda: card.chart.points_shown() > 4, "their points")
    return grid


def test_seeds_are_compared_as_a_mean_with_a_band(driver: Driver, trained: list[str]) -> None:
    """The strong line is the mean over the seeds, the band what the legend names."""
    grid = _compare(driver, trained)
    grid.band.setCurrentIndex(1)
    chart = grid.cards[_RETURN].chart
    driver.until(lambda: len(chart.bands.shown) == 1, "one band of one configuration")
    curves = [driver.services.feeds.curves(run_id)[_RETURN] for run_id in trained]
    expected = band([(one.steps, one.values) for one in curves])
    assert expected is not None
    shown = chart.bands.shown[0].band
    for part in ("x", "middle", "low", "high"):
        np.testing.assert_allclose(getattr(shown, part), getattr(expected, part))
    assert "mean, 95 % bootstrap interval over seeds" in grid.legend.text()
    assert f"({len(trained)} seeds" in grid.legend.text()
    grid.band.setCurrentIndex(3)
    driver.until(lambda: "± standard deviation" in grid.legend.text(), "the other kind")
    grid.band.setCurrentIndex(0)
    driver.until(lambda: not chart.bands.shown, "the band goes")
    assert not grid.legend.isVisible()


@pytest.fixture
def chart(driver: Driver) -> Iterator[Chart]:
    """A chart with two configurations of two and of one seed, from step 100 to 200."""
    made = Chart(driver.services.themes, driver.services.clock, "made")
    steps = np.arange(100.0, 201.0)
    lines = {
        name: Line(Series(steps, np.full(101, value), steps), name, "#0072b2", group=name[0])
        for name, value in (("a1", 1.0), ("a2", 3.0), ("b1", 50.0))
    }
    made.set_lines(lines, Look(smoothing=0.0))
    made.resize(500, 300)
    made.show()
    driver.until(lambda: len(made.curves_shown()) == 3, "three curves")
    yield made
    made.close_chart()
    made.close()
    made.deleteLater()


def test_configurations_are_never_pooled(driver: Driver, chart: Chart) -> None:
    """Each configuration has its own middle; a single seed has none."""
    chart.set_lines(chart.lines, Look(smoothing=0.0, bands=KINDS[0]))
    driver.until(lambda: chart.bands.shown, "the bands")
    assert [(one.name, float(one.band.middle[0])) for one in chart.bands.shown] == [("a", 2.0)]
    driver.services.clock.crosshair.emit(150.0)
    assert chart.readout_shown() == "step 150\n2  a (2 seeds)\n50  b1"


def test_the_read_out_shows_what_is_on_the_screen_and_nothing_else(
    driver: Driver, chart: Chart
) -> None:
    """It goes when the mouse leaves or other runs are selected, and ends where curves end."""
    hover = driver.services.clock.crosshair.emit
    hover(150.0)
    assert chart.readout_shown() == "step 150\n1  a1\n3  a2\n50  b1"
    for outside in (-826.0, 99.0, 201.0):
        hover(outside)
        assert chart.readout_shown() == ""
    hover(150.0)
    QApplication.sendEvent(chart, QEvent(QEvent.Type.Leave))
    assert chart.readout_shown() == ""
    hover(150.0)
    chart.set_lines({"b1": chart.lines["b1"]}, Look(smoothing=0.0))
    assert chart.readout_shown() == ""


def test_a_curve_shown_alone_says_so_and_ends_with_the_selection(
    driver: Driver, chart: Chart
) -> None:
    """A double-click never blanks the chart of a run that is selected later."""
    chart.show_only("a1")
    driver.until(lambda: chart.only.isVisible(), "the chip")
    assert "only a1" in chart.only.text()
    driver.services.clock.crosshair.emit(150.0)
    driver.until(lambda: chart.readout_shown() == "step 150\n1  a1", "one value")
    chart.only.click()
    driver.until(lambda: "b1" in chart.readout_shown(), "all again")
    chart.show_only("a1")
    chart.set_lines({"b1": chart.lines["b1"]}, Look(smoothing=0.0))
    driver.until(lambda: not chart.only.isVisible(), "the chip goes")
    driver.services.clock.crosshair.emit(150.0)
    driver.until(lambda: chart.readout_shown() == "step 150\n50  b1", "the other run")


def test_a_comparison_leaves_as_picture_and_table(
    driver: Driver, trained: list[str], tmp_path: Path
) -> None:
    """A chart is exported as a PNG that shows it and a CSV with every point of every run."""
    card = _compare(driver, trained).cards[_RETURN]
    card.save_png(tmp_path / "return.png")
    picture = QImage(str(tmp_path / "return.png"))
    assert picture.width() > 200
    colours = {picture.pixel(x, y) for x in range(0, picture.width(), 3) for y in range(0, 90, 3)}
    assert len(colours) > 3, "there is something on it"
    card.save_csv(tmp_path / "return.csv")
    with (tmp_path / "return.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for run_id in trained:
        curve = driver.services.feeds.curves(run_id)[_RETURN]
        values = [float(row["value"]) for row in rows if run_id in row["run"]]
        assert values == curve.values.tolist()


def test_zooming_in_shows_what_was_left_out(driver: Driver) -> None:
    """A chart thins a long curve to what fits; zoomed in, it draws the part in sight in full."""
    chart = Chart(driver.services.themes, driver.services.clock, "long")
    steps = np.arange(30_000.0)
    long = Series(steps, np.sin(steps), steps)
    chart.set_lines({"a": Line(long, "a", "#0072b2")}, Look(smoothing=0.0))
    chart.show()
    driver.until(lambda: chart.points_shown() > 1000, "the whole curve, thinned")
    assert chart.points_shown() < 3000
    chart.plot.getViewBox().setXRange(10_000, 10_300, padding=0)

    def in_sight() -> int:
        drawn, _ = chart.curves_shown()["a"]
        return int(((drawn >= 10_000) & (drawn <= 10_300)).sum())

    driver.until(lambda: in_sight() == 301, "every point in sight")
    chart.reset_zoom()
    driver.until(lambda: chart.curves_shown()["a"][0][-1] == steps[-1], "all of it again")
    chart.close_chart()
    chart.close()
    chart.deleteLater()


def test_curves_wait_for_the_next_tab(driver: Driver, trained: list[str]) -> None:
    """Going from a run's overview to its charts reads nothing again."""
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(trained[0])
    driver.window.run_panel.open_tab("overview")
    feeds = driver.services.feeds
    driver.until(lambda: _RETURN in feeds.curves(trained[0]), "the curve")
    known = feeds.curves(trained[0])[_RETURN]
    driver.window.run_panel.open_tab("details")
    driver.spin(0.1)
    driver.window.run_panel.open_tab("charts")
    assert feeds.curves(trained[0])[_RETURN] is known


def test_another_run_never_shows_the_curves_of_the_one_before(
    driver: Driver, trained: list[str]
) -> None:
    """Charts that are used again for the next run are empty until its own curves come."""
    driver.window.show_layout("watch")
    panel = driver.window.run_panel
    driver.window.runs_panel.show_run(trained[0])
    panel.open_tab("charts")
    grid = panel.tab("charts").grid
    driver.until(lambda: _RETURN in grid.cards, "charts")
    card = grid.cards[_RETURN]
    driver.until(lambda: card.chart.points_shown() > 2, "points")
    panel.tab("charts").on_other_run()
    assert card.chart.points_shown() == 0
    driver.window.runs_panel.show_run(trained[1])
    driver.until(lambda: grid.cards.get(_RETURN) is card, "the same chart")
    driver.until(lambda: set(card.chart.curves_shown()) == {trained[1]}, "the other run's curve")


def test_curves_of_a_worker_without_files_of_its_own(driver: Driver) -> None:
    """A run whose worker only reports numbers has its whole curve when it has ended."""
    run_id = driver.submit(config_of(total_timesteps=200, extras={"step_ms": 20}))
    driver.reaches(run_id, "TERM")
    driver.window.show_layout("watch")
    driver.window.runs_panel.show_run(run_id)
    driver.window.run_panel.open_tab("charts")
    grid = driver.window.run_panel.tab("charts").grid
    driver.until(lambda: grid.cards, "charts")
    chart = next(iter(grid.cards.values())).chart
    driver.until(lambda: chart.points_shown() >= 3, "its points")


def test_an_evaluation_is_shown_as_results_not_as_learning(driver: Driver) -> None:
    """Its episodes are dots, never smoothed into a curve, with mean, spread and interval."""
    values = np.array([500.0, 290.0, 500.0, 430.0])
    text = evaluation_text(values)
    assert text.startswith("4 episodes: mean return 430 ± 98.99 SD, IQM 465")
    assert "95 % interval of the mean over episodes" in text
    assert evaluation_text(np.array([3.0])) == "1 episode: mean return 3"
    made = Chart(driver.services.themes, driver.services.clock, "evaluation")
    steps = np.arange(1.0, 5.0)
    made.set_lines(
        {"a": Line(Series(steps, values, steps), "a", "#0072b2", dots=True)}, Look(smoothing=0.9)
    )
    made.show()
    driver.until(lambda: made.curves_shown(), "the dots")
    np.testing.assert_allclose(made.curves_shown()["a"][1], values)
    assert made.plot.getAxis("bottom").labelText == "episodes"
    made.close_chart()
    made.close()
    made.deleteLater()


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["ppo · CartPole-v1 · seed 1", "ppo · CartPole-v1 · seed 12"], ["… seed 1", "… seed 12"]),
        (["ppo-lr1e3 · seed 1", "ppo-lr3e4 · seed 1"], ["… lr1e3 · seed 1", "… lr3e4 · seed 1"]),
        (["ppo", "dqn"], ["ppo", "dqn"]),
        (["only · seed 1"], ["only · seed 1"]),
    ],
)  # fmt: skip
def test_what_tells_runs_apart_is_not_cut(names: list[str], shown: list[str]) -> None:
    """Names lose what they share, between words, and keep the seed with its word."""
    assert tell_apart(names) == shown


def test_a_narrow_legend_still_says_the_seeds(driver: Driver, trained: list[str]) -> None:
    """Where the names of the runs do not fit, the seeds are what is left of them."""
    driver.window.show_layout("analyse")
    legend = driver.window.compare.legend
    driver.services.selection.select(tuple(trained))
    driver.until(lambda: legend.count() == len(trained), "both runs")
    legend.resize(150, legend.height())
    seeds = {driver.services.store.get(run_id).seed for run_id in trained}
    assert {legend.item(row).text() for row in range(legend.count())} == {
        f"… seed {seed}" for seed in seeds
    }
    legend.resize(600, legend.height())
    assert all("CartPole" in legend.item(row).text() for row in range(legend.count()))
