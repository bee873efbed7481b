"""Gymnasium environments as worlds of numbered states: toy text as it is, MiniGrid by discovery."""

from __future__ import annotations

import hashlib
import os
from typing import Any, NamedTuple, SupportsInt, TypeAlias

from mosaic.telemetry.png import encode_png
from mosaic.workers import did_you_mean
from spade_bdi_rl_worker.errors import WorldError
from spade_bdi_rl_worker.tables import Env

DEFAULT_MAX_STEPS = 200
MAX_PICTURES = 2048
MAX_SIDE = 320
_MANY_SEEDS = 2**31 - 1


# Options of an environment's own, passed on to it.
EnvOptions: TypeAlias = dict[str, Any]
# A state's number, or where the agent is in a grid.
Seen = int | dict[str, object] | None


class Move(NamedTuple):
    """One step: what was seen before it, and what came of it."""

    seen: Seen
    action: int
    state: int
    reward: float
    terminated: bool
    truncated: bool

    @property
    def ended(self) -> bool:
        """Whether the episode is over."""
        return self.terminated or self.truncated


class World:
    """One environment with discrete states and actions.

    Every episode is seeded by its own number, so an episode can be repeated, and a resumed run
    needs nothing of the environment's past. MiniGrid keeps one layout (that of the run's seed).
    With `each_seed` episode n begins with seed + n, as other agents that play the same seeds do.
    """

    def __init__(
        self,
        env_id: str,
        seed: int,
        max_steps: int | None = None,
        kwargs: EnvOptions | None = None,
        frames: bool = False,
        each_seed: bool = False,
    ) -> None:
        self.env_id = env_id
        self._seed = seed
        self._each_seed = each_seed
        if frames:
            # Pictures are drawn in memory: there may be no display, and none is wanted.
            os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
            os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        self._env = make_env(env_id, max_steps, kwargs, "rgb_array" if frames else None)
        self.actions = int(self._env.action_space.n)
        self._frames = frames
        self._pictures: dict[tuple[int, int], bytes] = {}
        self._numbers: dict[str, int] = {}
        self._grid = hasattr(self._env.unwrapped, "agent_pos")
        self._state = 0
        self._last_action = -1
        self.observation: Seen = None

    def seed_of(self, episode: int) -> int:
        """The seed with which the environment begins an episode."""
        if self._each_seed:
            return self._seed + episode
        return self._seed if self._grid else (self._seed * 1_000_003 + episode) % _MANY_SEEDS

    def reset(self, episode: int) -> int:
        """Begin the episode with that number; returns the state."""
        # Every episode has a seed of its own: nothing of an environment's past needs saving.
        observation, _ = self._env.reset(seed=self.seed_of(episode))
        self._last_action = -1
        return self._arrive(observation)

    def step(self, action: int) -> Move:
        """Act in the world."""
        seen = self.observation
        observation, reward, terminated, truncated, _ = self._env.step(action)
        self._last_action = action
        state = self._arrive(observation)
        return Move(seen, action, state, float(reward), bool(terminated), bool(truncated))

    def won(self, last: Move) -> bool:
        """Whether an episode that ended with this step reached its goal."""
        # CliffWalking pays -1 at its goal too, and ends nowhere else.
        return last.terminated and (last.reward > 0 or self.env_id.startswith("CliffWalking"))

    def picture(self) -> bytes:
        """The world as it is now, as PNG; nothing when no frames are recorded."""
        if not self._frames:
            return b""
        place = self._state, self._last_action
        if place not in self._pictures:
            # Drawing and encoding takes milliseconds; a small world has few places to draw.
            if len(self._pictures) >= MAX_PICTURES:
                self._pictures.pop(next(iter(self._pictures)))
            pixels = self._env.render()
            stride = -(-max(pixels.shape[:2]) // MAX_SIDE)
            self._pictures[place] = encode_png(pixels[::stride, ::stride])
        return self._pictures[place]

    def numbering(self) -> dict[str, int]:
        """Which discovered state has which number; empty where the environment numbers them."""
        return dict(self._numbers)

    def recall(self, numbering: dict[str, int]) -> None:
        """Use the numbers of an earlier run."""
        self._numbers = dict(numbering)

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def _arrive(self, observation: SupportsInt) -> int:
        if self._grid:
            self.observation = self._grid_place()
            key = self._grid_key()
            self._state = self._numbers.setdefault(key, len(self._numbers))
        else:
            self._state = self.observation = int(observation)
        return self._state

    def _grid_place(self) -> dict[str, object]:
        env = self._env.unwrapped
        carrying = env.carrying
        return {
            "position": [int(x) for x in env.agent_pos],
            "direction": int(env.agent_dir),
            "carrying": f"{carrying.color} {carrying.type}" if carrying else "",
        }

    def _grid_key(self) -> str:
        env = self._env.unwrapped
        place = repr(self.observation)
        cells = env.grid.encode().tobytes()
        return hashlib.sha256(place.encode() + cells).hexdigest()[:24]


def make_env(
    env_id: str, max_steps: int | None, kwargs: EnvOptions | None, render_mode: str | None
) -> Env:
    """The environment, if a table can learn it.

    Raises:
        WorldError: It is unknown, not installed, or its states cannot be numbered.
    """
    import gymnasium

    if env_id.startswith(("MiniGrid-", "BabyAI-")):
        _import_minigrid()
    if env_id not in gymnasium.registry:
        raise WorldError(
            f"there is no environment {env_id!r}{did_you_mean(env_id, gymnasium.registry)}",
            "this worker learns FrozenLake-v1, FrozenLake8x8-v1, Taxi-v4, CliffWalking-v1 "
            "and MiniGrid-*",
        )
    limit = max_steps or gymnasium.spec(env_id).max_episode_steps or DEFAULT_MAX_STEPS
    try:
        env = gymnasium.make(
            env_id, render_mode=render_mode, max_episode_steps=limit, **(kwargs or {})
        )
    except (TypeError, gymnasium.error.Error) as error:
        raise WorldError(f"{env_id} cannot be made: {error}") from error
    discrete = gymnasium.spaces.Discrete
    tabular = isinstance(env.observation_space, discrete) or hasattr(env.unwrapped, "agent_pos")
    if not tabular or not isinstance(env.action_space, discrete):
        env.close()
        raise WorldError(
            f"{env_id} has no states to number: observations {env.observation_space}, "
            f"actions {env.action_space}",
            "a Q-table needs discrete states and actions: FrozenLake-v1, Taxi-v4, "
            "CliffWalking-v1, MiniGrid-*",
        )
    return env


def episode_limit(env: Env) -> int:
    """The longest episode of an environment made by `make_env`."""
    return int(env.get_wrapper_attr("_max_episode_steps"))


def _import_minigrid() -> None:
    try:
        import minigrid  # noqa: F401  (registers its environments)
    except ImportError as error:
        raise WorldError(
            "the MiniGrid environments are not installed", "run: pip install minigrid"
        ) from error
