"""Checks that the daemon runs on a submitted configuration before it creates a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_worker import TRAININGS, settings
from llm_worker.errors import SettingsError
from llm_worker.learn import settings as learning
from mosaic.workers import Problem

if TYPE_CHECKING:
    from mosaic.config.model import TrainRunConfig

CODE = "LLM101"


def problems(config: TrainRunConfig) -> list[Problem]:
    """Everything wrong with a configuration for this worker."""
    fields = config.worker.model_dump(exclude_unset=True)
    try:
        if fields.get("algo") in TRAININGS:
            learning.from_config(fields)
        else:
            settings.from_config(fields)
    except SettingsError as error:
        pointer = "/metadata/worker/config/extras"
        return [Problem(pointer, CODE, text) for text in str(error).split("; ")]
    return []
