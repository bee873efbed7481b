"""One definition of every number: the same run has the same numbers, whatever the machine does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from support.trainer import Trainer

from mosaic.curves.names import EPISODES, LAST_EPISODES, RETURN, SPEED, TAGS

Points = dict[str, list[tuple[int, float]]]
RUNS = {
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


def _config(kind: str) -> dict[str, Any]:
    worker = {"type": kind, "config": {"seed": 7, **RUNS[kind]}}
    return {"artifacts": {}, "metadata": {"worker": worker}}


def _trained(trainer: Trainer, kind: str) -> tuple[dict[str, float], Points]:
    """The numbers of a finished run and its stored curves, without those that measure time."""
    record = trainer.ended(trainer.client.submit(_config(kind)).run_id)
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
    quiet = {kind: _trained(trainer, kind) for kind in RUNS}
    with _busy_machine():
        busy = {kind: _trained(trainer, kind) for kind in RUNS}
    assert busy == quiet
    for numbers, curves in quiet.values():
        assert numbers
        for name, value in numbers.items():
            # The end of a stored curve is the number that the table shows.
            assert curves[TAGS.get(name, name)][-1][1] == value, name
        if RETURN in numbers:
            assert numbers[EPISODES] > LAST_EPISODES
