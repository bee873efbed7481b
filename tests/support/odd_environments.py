"""Environments of a user that go wrong in the middle of an episode."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class Odd(gym.Env[np.ndarray, int]):
    """Counts its steps and misbehaves at the hundredth."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (3,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, reward: float = 1.0, raises: bool = False, spins: bool = False) -> None:
        self._reward, self._raises, self._spins, self._count = reward, raises, spins, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self._count += 1
        if self._raises and self._count == 100:
            raise RuntimeError("the simulator lost its connection")
        while self._spins and self._count == 100:
            pass
        odd = self._count >= 100
        reward = self._reward if odd else 1.0
        return np.zeros(3, np.float32), reward, self._count % 10 == 0, False, {}


gym.register("Raising-v0", lambda: Odd(raises=True))
gym.register("NotANumber-v0", lambda: Odd(reward=float("nan")))
gym.register("Spinning-v0", lambda: Odd(spins=True))
gym.register("Invisible-v0", Odd)
