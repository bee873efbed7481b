"""An experiment gives the same conclusions on a quiet and on a busy machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.trainer import Trainer

from mosaic.client.comparing import compare_runs
from mosaic.client.experiments import evaluate_experiment, find_experiment

MOSAIC = str(Path(sys.executable).with_name("mosaic"))
# As in the guide: 2 configurations × 5 seeds.
STUDY = (
    "lr-study", "--algo", "ppo", "--env-id", "CartPole-v1", "--param", "learning-rate=1e-3,3e-4",
    "--seeds", "5", "--total-timesteps", "20000",
)  # fmt: skip


def _mosaic(trainer: Trainer, *words: str) -> str:
    home = {"MOSAIC_HOME": str(trainer.home.root)}
    done = subprocess.run(
        [MOSAIC, *words], env=trainer.environment(**home), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def _busy_loops(count: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@pytest.mark.prove
def test_the_same_experiment_gives_the_same_table_on_a_busy_machine(
    make_trainer: Callable[..., Trainer],
) -> None:
    """`mosaic compare` prints the same bytes, and every digit behind them is the same."""
    tables, numbers = [], []
    for loops in (0, 4):
        trainer = make_trainer().start()
        with _busy_loops(loops):
            _mosaic(trainer, "experiment", "run", *STUDY, "--wait")
        compared = ("compare", "experiment=lr-study")
        tables.append([_mosaic(trainer, *compared), _mosaic(trainer, *compared, "--latex")])
        members = find_experiment(trainer.client, "lr-study")[0].run_ids
        numbers.append(_without_ids(compare_runs(trainer.client, members).to_dict()))
        trainer.client.shutdown("stop")
    assert tables[0] == tables[1]
    assert numbers[0] == numbers[1]
    assert [len(cell["runs"]) for cell in numbers[0]["cells"]] == [5, 5]


def _without_ids(found: Any) -> Any:
    """Everything but the names of the runs, which no two runs share."""
    if isinstance(found, dict):
        return {key: _without_ids(value) for key, value in found.items() if key != "run_id"}
    if isinstance(found, (list, tuple)):
        return [_without_ids(value) for value in found]
    return found


@pytest.mark.prove
def test_evaluations_of_an_experiment_are_compared_like_their_trainings(
    make_trainer: Callable[..., Trainer],
) -> None:
    """One row for each configuration, one observation for each training, whatever was played."""
    trainer = make_trainer().start()
    words = ("--algo", "ppo", "--env-id", "CartPole-v1", "--param", "gamma=0.9,0.99")
    small = ("--seeds", "2", "--total-timesteps", "256", "--num-envs", "2", "--num-steps", "32")
    _mosaic(trainer, "experiment", "run", "judged", *words, *small, "--wait")
    evaluations = evaluate_experiment(trainer.client, "judged", episodes=2)
    for run_id in evaluations:
        assert trainer.client.wait(run_id).completed
    found, members = find_experiment(trainer.client, "judged", "evaluation")
    assert sorted(found.run_ids) == sorted(evaluations)
    compared = compare_runs(trainer.client, [run.run_id for run in members])
    assert [cell.group for cell in compared.cells] == ["ppo gamma=0.9", "ppo gamma=0.99"]
    assert [[run.seed for run in cell.runs] for cell in compared.cells] == [[1, 2], [1, 2]]
    # The experiment itself is what it was.
    assert len(find_experiment(trainer.client, "judged")[1]) == 4
    printed = _mosaic(trainer, "compare", "evaluation=judged")
    assert "ppo gamma=0.9" in printed
