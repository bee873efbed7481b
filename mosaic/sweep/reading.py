"""Curves of a sweep's runs, read from the daemon."""

from mosaic.client import TrainerClient
from mosaic.sweep.objective import Curve


def read_curve(trainer: TrainerClient, run_id: str, tag: str) -> Curve:
    """Every stored point of one scalar of a run."""
    steps: list[int] = []
    values: list[float] = []
    for batch in trainer.metrics(run_id, tags=[tag]):
        steps += batch.steps
        values += batch.values
    return Curve(steps, values)
