"""Checks that the daemon runs on a submitted config before it creates a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mosaic.errors import Problem
from spade_bdi_rl_worker import settings as settings_module
from spade_bdi_rl_worker.errors import PlanError, SettingsError
from spade_bdi_rl_worker.settings import Settings

if TYPE_CHECKING:
    from mosaic.config.model import TrainRunConfig

CODE = "SPADE101"


def problems(config: TrainRunConfig) -> list[Problem]:
    """Everything wrong with a TrainRunConfig for this worker."""
    worker = config.worker
    document = worker.model_dump(exclude_unset=True)
    try:
        settings = settings_module.from_config(document, {})
    except SettingsError as error:
        pointer = "/metadata/worker/config/extras"
        return [Problem(pointer, CODE, text) for text in str(error).split("; ")]
    return _plan_problems(settings)


def _plan_problems(settings: Settings) -> list[Problem]:
    """A plan that is not there or has mistakes, read as the agent would read it."""
    if settings.headless or settings.mode == "policy_eval":
        return []
    # Imported here: AgentSpeak is needed for runs of this worker alone.
    from spade_bdi_rl_worker.plans import check_plan, find_plan

    found = []
    for name, given, must_have in settings.plans:
        try:
            check_plan(find_plan(given), must_have)
        except PlanError as error:
            text = "; ".join(part for part in (str(error), error.hint) if part)
            found.append(Problem(f"/metadata/worker/config/extras/{name}", CODE, text))
    return found
