"""A run as a form asks for it."""

from dataclasses import dataclass

from mosaic.config.model import TrainRunConfig


@dataclass(frozen=True)
class Launch:
    """What to run, and the run that it continues, repeats or evaluates."""

    config: TrainRunConfig
    parent: str = ""
