"""What a comparison says: who belongs together, who counts, and what cannot be concluded."""

from dataclasses import replace

import numpy as np
import pytest

from mosaic.client.comparing import frame, runs_frame
from mosaic.statistics.aggregates import iqm
from mosaic.statistics.comparison import Question, Trained, compare
from mosaic.statistics.curves import DEVIATION, IQM, band, steps_to, value_at
from mosaic.statistics.significance import permutation_test

QUESTION = Question("charts/episodic_return")


def _run(
    seed: int, score: float, *, env: str = "A", done: bool = True, **settings: object
) -> Trained:
    steps = np.array([10.0, 50.0, 100.0])
    return Trained(
        run_id=f"{env}-{sorted(settings.items())}-{seed}",
        name="",
        algo="ppo",
        env_id=env,
        seed=seed,
        settings=settings,
        done=done,
        state="completed" if done else "failed",
        step=100,
        curve=(steps, np.array([0.0, score / 2, score])),
    )


def test_groups_are_configurations_without_the_seed() -> None:
    """Two learning rates are two groups, named by what sets them apart."""
    runs = [_run(seed, 10.0 * seed, lr=lr, gamma=0.9) for lr in (1e-3, 3e-4) for seed in (3, 1, 2)]
    found = compare(runs, QUESTION)
    assert [cell.group for cell in found.cells] == ["ppo lr=0.001", "ppo lr=0.0003"]
    cell = found.cells[0]
    assert [run.seed for run in cell.runs] == [1, 2, 3]
    assert (cell.mean, cell.iqm, cell.median) == (20.0, 20.0, 20.0)
    assert cell.sd == pytest.approx(10.0)
    assert cell.mean_interval is not None
    assert 10.0 <= cell.mean_interval.low < 20.0 < cell.mean_interval.high <= 30.0
    [pair] = found.pairs
    assert (pair.improvement, pair.p_value) == (0.5, 1.0)
    assert found.overall == ()


def test_with_two_seeds_it_says_that_this_shows_nothing() -> None:
    """There is no interval, and a note in its place."""
    found = compare([_run(1, 1.0), _run(2, 2.0)], QUESTION)
    assert found.cells[0].mean_interval is None
    assert "fewer than 3 seeds: this shows nothing" in found.notes[0]


def test_failed_seeds_are_left_out_and_named() -> None:
    """They do not count at the end, and do count at a step that they reached."""
    runs = [_run(1, 1.0), _run(2, 2.0), _run(3, 3.0), _run(4, 99.0, done=False)]
    cell = compare(runs, QUESTION).cells[0]
    assert (len(cell.runs), cell.mean) == (3, 2.0)
    assert [one.seed for one in cell.left_out] == [4]
    assert "failed" in cell.left_out[0].reason
    assert "1 of 4 seeds left out" in cell.note
    early = compare(runs, replace(QUESTION, at=60)).cells[0]
    assert (len(early.runs), early.at_step) == (4, 60)
    assert [run.score for run in early.runs] == [0.5, 1.0, 1.5, 49.5]


def test_seeds_of_unequal_length_are_read_where_all_have_been() -> None:
    """A run that ended early is not compared with what others reached later."""
    short = replace(_run(1, 8.0), step=50, curve=(np.array([10.0, 50.0]), np.array([0.0, 4.0])))
    cell = compare([short, _run(2, 8.0), _run(3, 8.0)], QUESTION).cells[0]
    assert (cell.at_step, cell.mean) == (50, 4.0)
    assert "seeds end at steps 50 to 100, read at 50" in cell.note


def test_environments_are_averaged_on_a_common_scale() -> None:
    """The one with the largest scores does not decide alone; one that is missing is not guessed."""
    runs = [
        _run(seed, value, env=env, lr=lr)
        for env, high in (("A", 1.0), ("B", 1000.0))
        for lr, value in ((1, high), (2, 0.0))
        for seed in (1, 2, 3)
    ]
    alone = [_run(seed, 1.0, lr=3) for seed in (1, 2, 3)]
    found = compare([*runs, *alone], QUESTION)
    assert {one.group: one.mean for one in found.overall} == {"ppo lr=1": 1.0, "ppo lr=2": 0.0}
    pair = found.pairs[0]
    assert pair.env_ids == ("A", "B")
    assert pair.improvement == 1.0
    given = compare(runs, replace(QUESTION, scale={"A": (0.0, 2.0), "B": (0.0, 2000.0)}))
    assert given.overall[0].iqm == 0.5
    assert given.overall[0].optimality_gap == 0.5


def test_lower_can_be_better() -> None:
    """For a loss the group with the smaller values wins."""
    runs = [_run(seed, 10.0 * lr + seed, lr=lr) for lr in (1, 2) for seed in (1, 2, 3)]
    assert compare(runs, QUESTION).pairs[0].improvement == 0.0
    assert compare(runs, replace(QUESTION, higher_is_better=False)).pairs[0].improvement == 1.0


def test_sample_efficiency_is_the_first_step_at_the_target() -> None:
    """Seeds that never reach it count as later than all others."""
    runs = [_run(1, 10.0), _run(2, 20.0), _run(3, 1.0)]
    cell = compare(runs, replace(QUESTION, target=10.0)).cells[0]
    assert [run.steps_to_target for run in cell.runs] == [100.0, 50.0, None]
    assert cell.steps_to_target == 100.0
    assert compare(runs, replace(QUESTION, target=20.0)).cells[0].steps_to_target is None
    curve = (np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0]))
    assert steps_to(curve, 2.0, falling=True) == 2.0
    assert value_at(curve, 2.9) == 2.0
    assert value_at(curve, 0.5) is None


def test_the_permutation_test_is_exact_for_few_runs() -> None:
    """Of the 20 ways to part six runs, two are as far apart as 1, 2, 3 against 4, 5, 6."""
    ours, theirs = [np.array([1.0, 2.0, 3.0])], [np.array([4.0, 5.0, 6.0])]
    assert permutation_test(ours, theirs) == 0.1
    assert permutation_test(ours, ours) == 1.0
    random = np.random.RandomState(0)
    many = [random.normal(0, 1, 40)], [random.normal(2, 1, 40)]
    assert permutation_test(*many) == pytest.approx(1 / 10_001)
    assert permutation_test(*many) == permutation_test(*many)


def test_the_interquartile_mean_of_few_is_the_mean() -> None:
    """Of three seeds none can be cut off; of five the extremes are."""
    assert iqm([np.array([1.0, 2.0, 6.0])]) == 3.0
    assert iqm([np.array([-1000.0, 1.0, 2.0, 3.0, 1000.0])]) == 2.0


@pytest.mark.parametrize("seeds", [5, 6, 7, 8, 33])
def test_the_interval_of_an_iqm_is_that_of_resamples_sorted_one_by_one(seeds: int) -> None:
    """However it is computed: draw seeds, cut a quarter at both ends, take the mean, 500 times."""
    random = np.random.default_rng(seeds)
    steps, values = np.arange(400.0), random.normal(size=(seeds, 400)).round(1)
    found = band([(steps, row) for row in values], middle=IQM)
    assert found is not None
    chosen = np.random.RandomState(0).randint(0, seeds, (500, seeds))
    drawn = np.sort(values[chosen], axis=1)[:, seeds // 4 : seeds - seeds // 4].mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    np.testing.assert_allclose(found.low, low, atol=1e-12)
    np.testing.assert_allclose(found.high, high, atol=1e-12)


def test_a_band_counts_the_seeds_that_are_there() -> None:
    """A curve that ends early counts as long as it lasts, and two curves have no interval."""
    whole = (np.array([0.0, 100.0]), np.array([0.0, 10.0]))
    higher = (np.array([0.0, 100.0]), np.array([2.0, 12.0]))
    short = (np.array([0.0, 50.0]), np.array([4.0, 9.0]))
    found = band([whole, higher, short])
    assert found is not None
    assert (found.seeds, found.counts[0], found.counts[-1]) == (3, 3, 2)
    assert 49.0 < found.shortest <= 50.0
    assert found.middle[0] == pytest.approx(2.0)
    assert found.middle[-1] == pytest.approx(11.0)
    assert found.low[0] == pytest.approx(0.0)
    assert found.high[0] == pytest.approx(4.0)
    assert found.low[-1] == found.high[-1] == found.middle[-1]
    spread = band([whole, higher], spread=DEVIATION)
    assert spread is not None
    assert spread.shows_nothing
    assert spread.high[0] - spread.middle[0] == pytest.approx(np.sqrt(2.0))
    cut = band([whole] * 3 + [(whole[0], whole[1] + 1000)], middle=IQM)
    assert cut is not None
    assert cut.middle[0] == pytest.approx(0.0)
    assert band([whole]) is None


def test_a_comparison_becomes_pandas_frames() -> None:
    """One row for each group, and one for each run that counts."""
    runs = [_run(seed, float(seed), lr=lr) for lr in (1, 2) for seed in (1, 2, 3)]
    found = compare(runs, QUESTION)
    groups, scores = frame(found), runs_frame(found)
    assert groups["mean"].tolist() == [2.0, 2.0]
    assert groups["group"].tolist() == ["ppo lr=1", "ppo lr=2"]
    assert scores.groupby("group")["score"].mean().tolist() == [2.0, 2.0]
