"""Continuous actions: the bounds a policy must scale to."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.types import Batch


def action_scale(envs: Batch) -> tuple[np.ndarray, np.ndarray]:
    """The half width and the centre of the action space, for a policy that ends in tanh.

    Raises:
        UsageError: when an action has no bounds to scale to.
    """
    space = envs.single_action_space
    assert isinstance(space, spaces.Box), "checked by `Run.check_spaces`"
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise UsageError(
            "This algorithm needs bounded actions, but the environment's reach from "
            f"{space.low.min()} to {space.high.max()}: use ppo_continuous_action."
        )
    low, high = space.low.astype(np.float32), space.high.astype(np.float32)
    return (high - low) / 2, (high + low) / 2
