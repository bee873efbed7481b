"""The worker's modes: one module each, chosen by `extras.mode`."""

from __future__ import annotations

from typing import cast

from cleanrl_worker.config import CleanRLWorkerConfig
from cleanrl_worker.modes import interactive, pipeline, policy_eval, resume, train, verify
from cleanrl_worker.modes.plan import Mode, Plan

__all__ = ["MODES", "Mode", "Plan", "mode_of"]

MODES: dict[str, Mode] = {
    "train": cast(Mode, train),
    "resume_training": cast(Mode, resume),
    "policy_eval": cast(Mode, policy_eval),
    "interactive": cast(Mode, interactive),
    "script": cast(Mode, pipeline),
    "verify": cast(Mode, verify),
}


def mode_of(config: CleanRLWorkerConfig) -> Mode:
    """The module that carries out a config."""
    return MODES[config.mode]
