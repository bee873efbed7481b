"""Sweeps of a daemon: what they have found, and their best settings trained.

Optuna is imported only when a study is read: most clients never ask for one.
"""

from mosaic.client.experiments import Submitted
from mosaic.client.sdk import TrainerClient
from mosaic.errors import MosaicError
from mosaic.sweep.results import Search

__all__ = ["Search", "Submitted", "read_sweep", "train_best"]


def read_sweep(trainer: TrainerClient, sweep: str) -> Search:
    """What a sweep has found so far.

    Args:
        trainer: The daemon that has it.
        sweep: Its id, any of its runs, or `last`.

    Raises:
        RunNotFoundError: There is no such sweep, or its study cannot be read.
        MosaicError: Optuna is not installed.
    """
    try:
        from mosaic.sweep.searched import read_search
    except ImportError:
        raise MosaicError(
            "sweeps need Optuna; run: pip install -r requirements/extras/optuna.txt"
        ) from None
    return read_search(trainer, sweep)


def train_best(trainer: TrainerClient, sweep: str, seeds: int = 5) -> Submitted:
    """Train the best settings of a sweep with seeds that it has not seen.

    Raises:
        InvalidArgumentError: No trial has a value yet.
    """
    from mosaic.sweep import finishing

    return finishing.train_best(trainer, read_sweep(trainer, sweep), seeds)
