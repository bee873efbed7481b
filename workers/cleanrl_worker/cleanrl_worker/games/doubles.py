"""Doubles: Catch for two players, each in one half of the picture, in PettingZoo's form.

Frames are grey pictures of 84 x 84 pixels. In each half a ball falls and a paddle can catch it: a
point for the player whose half it is. The game is over when the two have missed eight balls between
them, or after 1000 frames. The scores do not add up to zero, as they do in Pong, so what a player
has learned shows in its own. Random play scores about 2, and never missing about 50.
"""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from cleanrl_worker.kit.types import Array

ENV_ID = "mosaic/Doubles-v0"
SIZE, HALF = 84, 42
STAY, RIGHT, LEFT = range(3)
_MISSES, _MOST_FRAMES = 8, 1000
_PADDLE_WIDTH, _PADDLE_SPEED = 8, 2
_BALL_SIZE, _BALL_SPEED = 5, 4
_FLOOR = SIZE - 6
_PADDLE, _BALL = 140, 236


class Doubles(ParallelEnv[str, Array, int]):  # type: ignore[misc]  # PettingZoo has no types
    """One game between two players."""

    metadata = {"name": "doubles_v0"}  # noqa: RUF012 - as PettingZoo's own class declares it

    def __init__(self) -> None:
        self.possible_agents = ["first_0", "second_0"]
        self.agents: list[str] = []
        # PettingZoo asks for the same objects each time.
        self._pictures = spaces.Box(0, 255, (SIZE, SIZE, 1), np.uint8)
        self._moves = spaces.Discrete(3)
        self._random = np.random.default_rng()
        self._frames = self._misses = 0
        self._paddles = np.zeros(2, np.int64)
        # The left and upper edge of each player's ball, counted from the edge of its half.
        self._balls = np.zeros((2, 2), np.int64)

    def observation_space(self, agent: str) -> spaces.Box:
        """Both players see the whole picture."""
        return self._pictures

    def action_space(self, agent: str) -> spaces.Discrete:
        """Stay, right, left."""
        return self._moves

    def reset(
        self, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[dict[str, Array], dict[str, dict[str, object]]]:
        """Begin a game; without a seed it continues with the generator it has."""
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self._frames = self._misses = 0
        self._paddles[:] = self._random.integers(HALF - _PADDLE_WIDTH, size=2)
        for player in range(2):
            self._drop(player)
        return self._for_each(self._picture()), {agent: {} for agent in self.agents}

    def step(
        self, actions: dict[str, int]
    ) -> tuple[
        dict[str, Array],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, object]],
    ]:
        """One frame."""
        players = self.possible_agents
        points = [self._turn(player, actions[agent]) for player, agent in enumerate(players)]
        self._frames += 1
        over = self._misses >= _MISSES
        cut = not over and self._frames >= _MOST_FRAMES
        if over or cut:
            self.agents = []
        return (
            self._for_each(self._picture()),
            dict(zip(players, points, strict=True)),
            dict.fromkeys(players, over),
            dict.fromkeys(players, cut),
            {agent: {} for agent in players},
        )

    def close(self) -> None:
        """Nothing is open."""

    def _turn(self, player: int, action: int) -> float:
        """Move one player's paddle and ball; gives the point that was won."""
        if action != STAY:
            moved = self._paddles[player] + (_PADDLE_SPEED if action == RIGHT else -_PADDLE_SPEED)
            self._paddles[player] = min(max(moved, 0), HALF - _PADDLE_WIDTH)
        self._balls[player, 1] += _BALL_SPEED
        if self._balls[player, 1] + _BALL_SIZE < _FLOOR:
            return 0.0
        paddle, ball = self._paddles[player], self._balls[player, 0]
        caught = paddle - _BALL_SIZE < ball < paddle + _PADDLE_WIDTH
        self._misses += not caught
        self._drop(player)
        return float(caught)

    def _drop(self, player: int) -> None:
        self._balls[player] = self._random.integers(HALF - _BALL_SIZE), 0

    def _for_each(self, picture: Array) -> dict[str, Array]:
        return dict.fromkeys(self.possible_agents, picture)

    def _picture(self) -> Array:
        frame = np.zeros((SIZE, SIZE, 1), np.uint8)
        for player in range(2):
            paddle = player * HALF + self._paddles[player]
            left, top = self._balls[player] + (player * HALF, 0)
            frame[_FLOOR:, paddle : paddle + _PADDLE_WIDTH] = _PADDLE
            frame[top : top + _BALL_SIZE, left : left + _BALL_SIZE] = _BALL
        return frame
