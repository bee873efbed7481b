"""Checks that the daemon runs on a submitted config before it creates a run."""

from __future__ import annotations

from typing import Any

from mosaic.errors import Problem
from spade_bdi_rl_worker import settings as settings_module
from spade_bdi_rl_worker.errors import SettingsError

CODE = "SPADE101"


def problems(config: Any) -> list[Problem]:
    """Everything wrong with a TrainRunConfig for this worker."""
    worker = config.worker
    document = worker.model_dump(exclude_unset=True)
    try:
        settings_module.from_config(document, {})
    except SettingsError as error:
        pointer = "/metadata/worker/config/extras"
        return [Problem(pointer, CODE, text) for text in str(error).split("; ")]
    return []
