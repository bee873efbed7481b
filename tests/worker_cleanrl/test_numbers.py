"""One definition of every number: the same run has the same numbers, whatever the machine does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.trainer import Trainer

from mosaic.curves.names import EPISODES, LAST_EPISODES, RETURN, SPEED, TAGS

Points = dict[str, list[tuple[int, float]]]
RUNS: dict[str, dict[str, Any]] = {
    # Episodes of many lengths, more than a return counts, and curves of losses.
    "cleanrl": {"algo": "ppo", "env_id": "CartPole-v1", "total_timesteps": 4096},
    # A worker that writes no curves itself, and counts its progress in episodes.
    "spade_bdi": {
        "env_id": "FrozenLake-v1",
        "extras": {"headless": True, "episodes": 6_000},
    },
    # One that reports far more often than a person can read.
    "example": {"algo": "darts", "total_timesteps": 3000},
}


PHASE_STEPS = 2048
PHASE = {"algo": "ppo", "env_id": "CartPole-v1", "steps": PHASE_STEPS}
LEARNS_EARLY = {"learning_starts": 200, "buffer_size": 1000}
SCRIPT = {
    "mode": "script",
    "script_phases": [
        {"name": "first", **PHASE},
        {"name": "second", **PHASE, "algo": "dqn", "parameters": LEARNS_EARLY},
    ],
}


def _trained(
    trainer: Trainer, kind: str, config: dict[str, Any]
) -> tuple[dict[str, float], Points]:
    """The numbers of a finished run and its stored curves, without those that measure time."""
    worker = {"type": kind, "config": {"seed": 7, **config}}
    document = {"artifacts": {}, "metadata": {"worker": worker}}
    record = trainer.ended(trainer.client.submit(document).run_id)
    assert record.completed, record.reason
    curves: Points = {}
    for batch in trainer.client.metrics(record.run_id):
        curves.setdefault(batch.tag, []).extend(zip(batch.steps, batch.values, strict=True))
    curves.pop(TAGS[SPEED], None)
    return {name: value for name, value in record.metrics.items() if name != SPEED}, curves


@contextmanager
def _busy_machine() -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def test_a_busy_machine_changes_no_number(make_trainer: Callable[..., Trainer]) -> None:
    """Same configuration and seed: same table and same stored curves, to the last digit."""
    trainer = make_trainer(warm_start="true").start()
    quiet = {kind: _trained(trainer, kind, config) for kind, config in RUNS.items()}
    with _busy_machine():
        busy = {kind: _trained(trainer, kind, config) for kind, config in RUNS.items()}
    assert busy == quiet
    for numbers, curves in quiet.values():
        _table_is_the_end_of_the_curves(numbers, curves)


def _table_is_the_end_of_the_curves(numbers: dict[str, float], curves: Points) -> None:
    assert numbers
    for name, value in numbers.items():
        assert curves[TAGS.get(name, name)][-1][1] == value, name
    if RETURN in numbers:
        assert numbers[EPISODES] > LAST_EPISODES


@pytest.mark.prove
def test_a_busy_machine_changes_no_number_of_a_script(
    make_trainer: Callable[..., Trainer],
) -> None:
    """The same for several trainings in one run, each a process of its own: no curve is sampled
    by the clock, each has the points of both phases, and none runs backwards."""
    trainer = make_trainer().start()
    quiet = _trained(trainer, "cleanrl", {"extras": SCRIPT})
    with _busy_machine():
        busy = _trained(trainer, "cleanrl", {"extras": SCRIPT})
    assert busy == quiet
    numbers, curves = quiet
    _table_is_the_end_of_the_curves(numbers, curves)
    for tag, points in curves.items():
        steps = [step for step, _ in points]
        assert steps == sorted(steps), tag
    for tag, first, second in (
        (TAGS[RETURN], True, True),
        ("losses/entropy", True, False),
        ("losses/td_loss", False, True),
    ):
        steps = [step for step, _ in curves[tag]]
        assert any(step <= PHASE_STEPS for step in steps) == first, tag
        assert any(step > PHASE_STEPS for step in steps) == second, tag
