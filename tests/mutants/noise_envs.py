"""Environments that are nothing but numbers: every step can end an episode, either way.

A replay memory filled from these holds terminated, truncated and ordinary transitions within a
few steps, and action ranges are neither symmetric nor the same in each dimension.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from cleanrl_worker.kit.envs import Envs

DISCRETE = "mutants/Noise-v0"
CONTINUOUS = "mutants/ContinuousNoise-v0"
PIXELS = "mutants/NoisePixels-v0"
_SHAPE = (2, 8, 8)
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


class NoisePixels(Noise):
    """Small random pictures.

    Args:
        shape: channels, height and width.
    """

    def __init__(self, shape: tuple[int, int, int] = _SHAPE) -> None:
        super().__init__(continuous=False)
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)

    def _look(self) -> np.ndarray:
        return self.np_random.integers(256, size=self.observation_space.shape, dtype=np.uint8)


class NoisePool(Envs):
    """Random pictures in place of a file's games, whose options it accepts.

    What an update computes does not depend on the game; here it takes milliseconds, and episodes
    end both ways at once.
    """

    averages: dict[str, float] = {}  # noqa: RUF012  (a pool's running averages: there are none)

    def __init__(self, env_id: str, num_envs: int, **options: Any) -> None:
        super().__init__(PIXELS, num_envs, shape=self.shape())

    @classmethod
    def shape(cls) -> tuple[int, int, int]:
        """Channels, height and width of a picture."""
        return _SHAPE

    def _finish(self, ended: list[int]) -> dict[str, Any]:
        return {**super()._finish(ended), "players": {}}


class NoiseFrames(NoisePool):
    """The same in the size of Atari's frames, for networks that need it."""

    @classmethod
    def shape(cls) -> tuple[int, int, int]:
        """Channels, height and width of a picture."""
        return (4, 84, 84)


gym.register(PIXELS, NoisePixels, max_episode_steps=_TIME_LIMIT)
for name, is_continuous in ((DISCRETE, False), (CONTINUOUS, True)):
    gym.register(
        name,
        lambda continuous=is_continuous: Noise(continuous),
        max_episode_steps=_TIME_LIMIT,
    )
