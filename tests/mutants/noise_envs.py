"""Environments that are nothing but numbers: every step can end an episode, either way.

A replay memory filled from these holds terminated, truncated and ordinary transitions within a
few steps, and action ranges are neither symmetric nor the same in each dimension.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

DISCRETE = "mutants/Noise-v0"
CONTINUOUS = "mutants/ContinuousNoise-v0"
_TIME_LIMIT = 6
_ENDS = 0.12


class Noise(gym.Env[np.ndarray, Any]):
    """Random observations, rewards and ends.

    Args:
        continuous: whether actions are two numbers, or one of three choices.
    """

    def __init__(self, continuous: bool) -> None:
        self.observation_space = spaces.Box(-10.0, 10.0, (3,), np.float32)
        self.action_space: spaces.Space[Any] = spaces.Discrete(3)
        if continuous:
            low, high = np.array([-1.0, -2.0], np.float32), np.array([3.0, 2.5], np.float32)
            self.action_space = spaces.Box(low, high)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        return self._look(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Whatever was done, draw what follows."""
        reward = float(self.np_random.normal())
        return self._look(), reward, bool(self.np_random.random() < _ENDS), False, {}

    def _look(self) -> np.ndarray:
        return self.np_random.normal(size=3).astype(np.float32)


for name, is_continuous in ((DISCRETE, False), (CONTINUOUS, True)):
    gym.register(
        name,
        lambda continuous=is_continuous: Noise(continuous),
        max_episode_steps=_TIME_LIMIT,
    )
