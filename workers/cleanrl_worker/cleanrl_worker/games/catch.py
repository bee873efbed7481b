"""Catch: balls fall, a paddle catches them; with everything that makes Atari games special.

Frames are pictures of 84 x 84 pixels. The ball waits until FIRE is pressed, at the start and after
each lost life. A ball that is missed costs one of three lives, the last one ends the game; a player
who misses none is stopped by the time limit. A golden ball counts five points, any other one.

Nothing here is about learning: the Atari scripts skip frames, stack them, clip rewards and end
episodes with lives, as they do for ROMs. Random play scores about 3, and never missing about 90.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from cleanrl_worker.kit.types import Array

SIZE = 84
LIVES = 3
NOOP, FIRE, RIGHT, LEFT = range(4)
_PADDLE_WIDTH, _PADDLE_SPEED = 22, 3
_BALL_SIZE, _BALL_SPEED = 6, 4
_FLOOR = SIZE - 6
_GOLDEN_SHARE = 0.2
_WHITE, _GOLD, _BLUE, _RED = (236, 236, 236), (252, 188, 40), (66, 114, 194), (200, 72, 72)


class Catch(gym.Env[Array, np.int64]):
    """One game; `info["lives"]` says how many lives are left.

    Args:
        render_mode: `rgb_array` lets `render` give the newest frame.
    """

    # Gymnasium's own class declares it like this, for each class to replace.
    metadata: dict[str, object] = {  # noqa: RUF012
        "render_modes": ["rgb_array"],
        "render_fps": 60,
    }

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = spaces.Box(0, 255, (SIZE, SIZE, 3), np.uint8)
        self.action_space = spaces.Discrete(4)
        self._paddle = self._ball_x = self._ball_y = 0
        self._lives = 0
        self._falling = self._golden = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[np.ndarray, dict[str, object]]:
        """Begin a game: three lives, and a ball that waits for FIRE."""
        super().reset(seed=seed)
        self._lives = LIVES
        self._paddle = int(self.np_random.integers(SIZE - _PADDLE_WIDTH))
        self._falling = False
        return self._picture(), {"lives": self._lives}

    def step(
        self, action: int | np.int64
    ) -> tuple[np.ndarray, float, bool, bool, dict[str, object]]:
        """One frame."""
        if action in (RIGHT, LEFT):
            moved = self._paddle + (_PADDLE_SPEED if action == RIGHT else -_PADDLE_SPEED)
            self._paddle = min(max(moved, 0), SIZE - _PADDLE_WIDTH)
        reward = 0.0
        if self._falling:
            reward = self._fall()
        elif action == FIRE:
            self._drop()
        return self._picture(), reward, self._lives == 0, False, {"lives": self._lives}

    def render(self) -> np.ndarray:
        """The newest frame."""
        return self._picture()

    def _drop(self) -> None:
        self._ball_x = int(self.np_random.integers(SIZE - _BALL_SIZE))
        self._ball_y = 0
        self._golden = bool(self.np_random.random() < _GOLDEN_SHARE)
        self._falling = True

    def _fall(self) -> float:
        self._ball_y += _BALL_SPEED
        if self._ball_y + _BALL_SIZE < _FLOOR:
            return 0.0
        if self._paddle - _BALL_SIZE < self._ball_x < self._paddle + _PADDLE_WIDTH:
            points = 5.0 if self._golden else 1.0
            self._drop()
            return points
        self._lives -= 1
        self._falling = False
        return 0.0

    def _picture(self) -> np.ndarray:
        frame = np.zeros((SIZE, SIZE, 3), np.uint8)
        frame[_FLOOR:, self._paddle : self._paddle + _PADDLE_WIDTH] = _BLUE
        frame[0, : 4 * self._lives] = _RED
        if self._falling:
            rows = slice(self._ball_y, self._ball_y + _BALL_SIZE)
            columns = slice(self._ball_x, self._ball_x + _BALL_SIZE)
            frame[rows, columns] = _GOLD if self._golden else _WHITE
        return frame
