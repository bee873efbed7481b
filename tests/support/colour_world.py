"""An environment whose picture is one colour, so that a frame tells where it came from."""

import math
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

COLOURS = [(200, 30, 30), (30, 200, 30), (30, 30, 200), (200, 200, 30), (30, 200, 200)]
EPISODE_LENGTH = 10


class ColourWorld(gym.Env):
    """Ten steps of reward 1; observations come from the environment's own random stream."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 30}
    observation_space = gym.spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, number: int = 0, trouble: str = "", render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self._colour = COLOURS[number]
        self._trouble = trouble
        self._steps = 0
        self.renders = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        reward = math.nan if self._trouble == "nan" else 1.0
        return self._observe(), reward, self._steps == EPISODE_LENGTH, False, {}

    def render(self) -> np.ndarray:
        self.renders += 1
        if self._trouble == "render":
            raise RuntimeError("the paint has dried up")
        return np.full((20, 30, 3), self._colour, np.uint8)

    def _observe(self) -> np.ndarray:
        return self.np_random.random(2, dtype=np.float32)


class TextWorld(ColourWorld):
    """The same without pictures."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"]}


gym.register("ColourWorld-v0", ColourWorld)
gym.register("TextWorld-v0", TextWorld)
