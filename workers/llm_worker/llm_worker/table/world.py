"""A PettingZoo environment as a table: who is to move, what that one reads, what came of it."""

from __future__ import annotations

import importlib
import os
import random
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from pydantic import JsonValue

from llm_worker.errors import WorldError
from llm_worker.play.actions import Choices
from llm_worker.play.world import shrunk_png
from llm_worker.table.games import GAMES, Board, TableGame

# For games that never end by themselves.
DEFAULT_MAX_MOVES = 1000


@dataclass(frozen=True)
class Moved:
    """What came of one move.

    Attributes:
        rewards: Of every seat.
    """

    rewards: tuple[float, ...]
    terminated: bool
    truncated: bool

    @property
    def ended(self) -> bool:
        """Whether the game is over."""
        return self.terminated or self.truncated


class _Table(Protocol):
    """What is used of PettingZoo's environments, which have no types."""

    possible_agents: list[str]
    agent_selection: str
    rewards: dict[str, float]
    terminations: dict[str, bool]
    truncations: dict[str, bool]

    def reset(self, seed: int) -> None: ...
    def observe(self, agent: str) -> Board | dict[str, Board]: ...
    def step(self, action: int) -> None: ...
    def render(self) -> object: ...
    def close(self) -> None: ...


class TableWorld:
    """One game for several players, with perfect turns."""

    def __init__(
        self, env_id: str, max_moves: int, kwargs: dict[str, JsonValue], frames: bool
    ) -> None:
        """Make the game.

        Raises:
            WorldError: It cannot be made.
        """
        self.env_id = env_id
        self.game: TableGame = GAMES[env_id]
        self._frames = frames
        self._most = max_moves or DEFAULT_MAX_MOVES
        if frames:
            # Pictures are drawn in memory: there may be no display, and none is wanted.
            os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
            os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        self.env = _make(env_id, self.game, kwargs, frames)
        self.seats: list[str] = list(self.env.possible_agents)
        self.moves: list[str] = []
        self._seen: Board = np.zeros(0)
        self._mask: Board | None = None

    def begin(self, seed: int) -> None:
        """Begin a game; its first moves may be drawn by the seed."""
        self.env.reset(seed=seed)
        self.moves = []
        self._look()
        chance = random.Random(f"opening {seed}")
        for _ in range(self.game.openings):
            self.act(chance.choice(self.actions.legal)[0])

    @property
    def to_move(self) -> int:
        """The seat whose turn it is."""
        return self.seats.index(self.env.agent_selection)

    @property
    def board(self) -> Board:
        """What the player to move sees."""
        return self._seen

    @property
    def actions(self) -> Choices:
        """What the player to move may do."""
        legal = () if self._mask is None else tuple(int(n) for n in np.flatnonzero(self._mask))
        return Choices(self.game.names, allowed=legal)

    def text(self) -> str:
        """What the player to move reads."""
        # In a shared world everyone's own last move counts; on a board it is the other's.
        back = len(self.seats) if self.game.cooperative else 1
        return self.game.describe(self._seen, self.moves[-back:][:1])

    def act(self, action: int) -> Moved:
        """Let the player to move act."""
        self.moves.append(self.game.names[action])
        self.env.step(action)
        rewards = tuple(float(self.env.rewards.get(seat, 0.0)) for seat in self.seats)
        terminated = all(self.env.terminations.values())
        truncated = all(self.env.truncations.values()) or len(self.moves) >= self._most
        if not terminated and not truncated:
            self._look()
        return Moved(rewards, terminated, truncated and not terminated)

    def picture(self) -> bytes:
        """The table as it is now, as PNG; nothing when none is drawn."""
        return shrunk_png(self.env.render()) if self._frames else b""

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _look(self) -> None:
        seen = self.env.observe(self.env.agent_selection)
        if isinstance(seen, dict):
            self._seen, self._mask = seen["observation"], seen["action_mask"]
        else:
            self._seen, self._mask = seen, None


def _make(env_id: str, game: TableGame, kwargs: dict[str, JsonValue], frames: bool) -> _Table:
    try:
        module = importlib.import_module(game.module)
        table: _Table = module.env(
            render_mode="rgb_array" if frames else None, **{**game.defaults, **kwargs}
        )
        return table
    except ImportError as error:
        text = f"{env_id} needs {error.name}, which is not installed"
        raise WorldError(text, "run: make setup-llm") from error
    except TypeError as error:
        raise WorldError(f"{env_id} cannot be made: {error}") from error
