"""After the search: racing, fresh seeds for the best trials, the best settings for good."""

from collections.abc import Callable

import pytest
from cli.conftest import Command
from support.trainer import Trainer

from mosaic.client.experiments import find_experiment
from mosaic.statistics.intervals import Interval
from mosaic.sweep.results import Confirmed

CLIMB = ("climber", "--total-timesteps", "4", "--step-ms", "1", "--objective", "height")
GRID = ("--param", "slope=1,3,2,4", "--sampler", "grid")


@pytest.fixture
def warm(make_trainer: Callable[..., Trainer]) -> Trainer:
    """A home whose runs begin at once."""
    return make_trainer(warm_start="true").start()


@pytest.fixture
def mosaic(warm: Trainer) -> Command:
    """Its user."""
    return Command(warm.environment(MOSAIC_HOME=str(warm.home.root)))


def test_the_best_trials_are_confirmed_and_the_best_is_trained_with_fresh_seeds(
    warm: Trainer, mosaic: Command
) -> None:
    """No seed is used twice: not by the search, the confirmation and the training of the best."""
    done = mosaic.json("sweep", *CLIMB, *GRID, "--confirm", "2", "--fresh", "3")
    sweep_id = done["sweep_id"]
    assert [one["trial"] for one in done["confirmed"]] == [3, 1]
    first = done["confirmed"][0]
    assert first["searched"] == first["mean"] == pytest.approx(16.0)
    assert first["interval"] == [pytest.approx(16.0)] * 2
    confirmed, runs = find_experiment(warm.client, f"confirm-{sweep_id}")
    assert confirmed.seeds == (2, 3, 4)
    assert len(runs) == 6
    # Asked again, nothing is trained again.
    again = mosaic.json("sweep", "confirm", sweep_id, "--confirm", "2", "--fresh", "3")
    assert again["confirmed"] == done["confirmed"]
    made = mosaic.json("sweep", "best", sweep_id, "--fresh", "2")
    for run_id in made["runs"]:
        warm.ended(run_id)
    best, runs = find_experiment(warm.client, made["experiment"])
    assert best.seeds == (5, 6)
    settings = [warm.client.config(run.run_id)["metadata"]["worker"]["config"] for run in runs]
    assert {one["extras"]["slope"] for one in settings} == {4}

    shown = mosaic.json("sweep", "show", sweep_id)
    # One parameter explains everything that there is to explain.
    assert shown["importance"] == {"slope": pytest.approx(1.0)}
    assert "name one sweep" in mosaic("sweep", "best", code=2)


def test_seeds_of_a_trial_that_falls_behind_are_not_trained(warm: Trainer, mosaic: Command) -> None:
    """In a race a trial behind the median after its first seed gets no second one."""
    words = ("--param", "slope=3,2", "--sampler", "grid", "--prune-after", "1")
    done = mosaic.json("sweep", *CLIMB, *words, "--seeds", "2", "--race")
    trials = {trial["number"]: trial for trial in done["trials"]}
    assert trials[0]["state"] == "complete"
    assert len(trials[0]["runs"]) == 2
    assert trials[1]["state"] == "pruned"
    assert len(trials[1]["runs"]) == 1
    assert "--race needs --seeds" in mosaic("sweep", *CLIMB, *words, "--race", code=2)


def test_the_winners_curse_is_what_fresh_seeds_took_away() -> None:
    """Promised minus kept, in the direction of the search."""
    one = Confirmed(0, 100.0, (80.0, 90.0, 85.0), 85.0, Interval(80.0, 90.0))
    assert one.optimism(maximise=True) == 15.0
    assert one.optimism(maximise=False) == -15.0
