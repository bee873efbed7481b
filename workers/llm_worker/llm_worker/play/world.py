"""The environment of a run: begun by seed, stepped by actions, read as text."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from pydantic import JsonValue

from llm_worker.describe.views import actions_of, family_of, moment_actions, with_default
from llm_worker.errors import WorldError
from llm_worker.play.actions import Action, Actions
from mosaic.telemetry.png import encode_png
from mosaic.workers import did_you_mean

# Families that exist only once their package is imported.
_REGISTERING = {"MiniGrid": "minigrid", "BabyAI": "minigrid", "ALE/": "ale_py"}
TEXTARENA = "textarena:"
# For environments that never end by themselves.
DEFAULT_MAX_STEPS = 500
MAX_SIDE = 320


@dataclass(frozen=True)
class Outcome:
    """What came of one action."""

    reward: float
    terminated: bool
    truncated: bool
    success: bool | None = None

    @property
    def ended(self) -> bool:
        """Whether the episode is over."""
        return self.terminated or self.truncated


class World:
    """One environment with its describer.

    Attributes:
        env: The environment itself, for players that look into it.
    """

    def __init__(
        self,
        env_id: str,
        max_steps: int = 0,
        kwargs: dict[str, JsonValue] | None = None,
        frames: bool = False,
        default_action: str = "",
    ) -> None:
        if frames:
            # Pictures are drawn in memory: there may be no display, and none is wanted.
            os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
            os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        self.env_id = env_id
        self._frames = frames
        self.env = _make(env_id, max_steps, kwargs or {}, frames)
        self._family = family_of(env_id, self.env)
        named = actions_of(env_id, self.env.action_space, self._family.names)
        self._actions = with_default(named, default_action)
        self._describe = self._family.new_episode()
        self._seen: object = None
        self._last: list[str] = []

    @property
    def actions(self) -> Actions:
        """What can be done now."""
        return moment_actions(self.env, self._actions)

    @property
    def rules(self) -> str:
        """What the agent should know before it begins."""
        return self._family.rules

    def begin(self, seed: int) -> None:
        """Begin an episode."""
        self._seen, _ = self.env.reset(seed=seed)
        self._describe = self._family.new_episode()
        self._last = []

    def text(self) -> str:
        """What the agent reads now. Called once a step: a describer remembers what it saw."""
        return self._describe(self.env, self._seen, self._last)

    def act(self, action: Action) -> Outcome:
        """Act once."""
        said = self.actions.say(action)
        given: object = action
        if isinstance(action, list):
            given = np.asarray(action, dtype=self.env.action_space.dtype)
        self._seen, reward, terminated, truncated, info = self.env.step(given)
        self._last.append(said)
        ended = bool(terminated or truncated)
        return Outcome(
            float(reward),
            bool(terminated),
            bool(truncated),
            self._success(float(reward), bool(terminated), info) if ended else None,
        )

    def picture(self) -> bytes:
        """The world as it is now, as PNG; nothing when it draws none."""
        if not self._frames:
            return b""
        return shrunk_png(self.env.render())

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _success(self, reward: float, terminated: bool, info: dict[str, object]) -> bool | None:
        told = info.get("is_success", info.get("success"))
        if told is not None:
            return bool(told)
        if not self._family.has_goal:
            return None
        # CliffWalking pays -1 at its goal too, and ends nowhere else.
        return terminated and (reward > 0 or self.env_id.startswith("CliffWalking"))


def shrunk_png(pixels: object) -> bytes:
    """A picture small enough for a record of each step; nothing when it is none."""
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 3:
        return b""
    stride = -(-max(pixels.shape[:2]) // MAX_SIDE)
    return encode_png(pixels[::stride, ::stride])


def _make(
    env_id: str, max_steps: int, kwargs: dict[str, Any], frames: bool
) -> gymnasium.Env[Any, Any]:
    if env_id.startswith(TEXTARENA):
        # Seconds to import, and needed for nothing else.
        from llm_worker.describe.textarena import TextArenaEnv

        game = TextArenaEnv(env_id.removeprefix(TEXTARENA), **kwargs)
        return gymnasium.wrappers.TimeLimit(game, max_steps or DEFAULT_MAX_STEPS)
    for prefix, package in _REGISTERING.items():
        if env_id.startswith(prefix):
            try:
                module = importlib.import_module(package)
            except ImportError as error:
                text = f"{env_id} needs {package}, which is not installed"
                raise WorldError(text, f"run: pip install {package}") from error
            gymnasium.register_envs(module)
    if env_id not in gymnasium.registry:
        near = did_you_mean(env_id, gymnasium.registry)
        raise WorldError(f"there is no environment {env_id!r}{near}")
    try:
        mode = "rgb_array" if frames else None
        env = gymnasium.make(env_id, render_mode=mode, **kwargs)
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        raise WorldError(f"{env_id} cannot be made: {error}") from error
    own = gymnasium.spec(env_id).max_episode_steps or getattr(env.unwrapped, "max_steps", 0)
    limit = max_steps or (0 if own else DEFAULT_MAX_STEPS)
    return gymnasium.wrappers.TimeLimit(env, limit) if limit else env
