"""Recall: a corridor with two ends, and a cue that is gone when it is needed.

The player stands in the middle. For the first steps it cannot move and sees a cue: -1 or 1, the end
that will be rewarded. Then the cue disappears, and only some steps later can the player walk. The
right end gives 1, the wrong one -1. What is seen while walking says nothing about the cue, so
without memory no policy does better than 0 on average; with memory it is 1.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from cleanrl_worker.kit.types import Array

# How long the cue is seen, how long the player then has to keep it in mind, how far it walks.
SHOWN, HIDDEN, REACH = 2, 4, 3
LEFT, RIGHT = range(2)


class Recall(gym.Env[Array, np.int64]):
    """One walk; it sees its place, the cue while it is shown, and whether it can walk."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._cue = self._place = self._time = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[Array, dict[str, object]]:
        """Draw a cue and return to the middle."""
        super().reset(seed=seed)
        self._cue = int(self.np_random.choice((-1, 1)))
        self._place = self._time = 0
        return self._look(), {}

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, object]]:
        """Wait, or walk one place to either side."""
        if self._time >= SHOWN + HIDDEN:
            self._place += 1 if action == RIGHT else -1
        self._time += 1
        arrived = abs(self._place) == REACH
        reward = float(np.sign(self._place) * self._cue) if arrived else 0.0
        return self._look(), reward, arrived, False, {}

    def _look(self) -> Array:
        cue = self._cue if self._time < SHOWN else 0
        walks = self._time >= SHOWN + HIDDEN
        return np.array([self._place / REACH, cue, walks], np.float32)
