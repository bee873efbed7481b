"""CartPole that slows down for a while, so that a test can disturb a run before it ends.

How long a run of a few seconds lasts depends on the machine. This one lasts at least a minute the
first time: long enough to cut its network or to take its node. A restarted run is not held up. It
computes the same numbers as CartPole-v1, so the two can be compared bit by bit.
"""

import os
import time

import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control import CartPoleEnv

# In steps of one of PPO's four environments. A rollout still takes less time than a run that is
# told to end is given to save.
_SLOW = range(2_500, 7_500)
_STEP_S = 0.003


class StrollingCartPole(CartPoleEnv):
    """CartPole with a slow stretch in a run's first attempt."""

    _count = 0

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, object]]:
        self._count += 1
        if self._count in _SLOW and "MOSAIC_RESTARTS" not in os.environ:
            time.sleep(_STEP_S)
        return super().step(action)


gym.register("StrollingCartPole-v1", StrollingCartPole, max_episode_steps=500)
