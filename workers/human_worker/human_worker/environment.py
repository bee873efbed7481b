"""The environment inside the play worker: stepped by actions, seen as PNG frames."""

import importlib
import os
from typing import Any

import gymnasium
import numpy as np

from human_worker.keys import Action, KeyMap, key_map
from human_worker.world import Moved
from mosaic.errors import MosaicError
from mosaic.telemetry.png import encode_png
from mosaic.workers.keyboard import proposed_keys


class PlayError(MosaicError):
    """The environment is unknown, not installed, or cannot be shown."""


# Families that only exist once their package is imported.
_REGISTERING = {"MiniGrid": "minigrid", "BabyAI": "minigrid", "ALE/": "ale_py"}


class EnvHost:
    """One Gymnasium environment that a person plays."""

    def __init__(self, env_id: str, kwargs: dict[str, Any] | None = None) -> None:
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        self.env_id = env_id
        self._env = _make(env_id, kwargs or {})
        self.keys = _keys_of(env_id, self._env)
        self.fps = float(self._env.metadata.get("render_fps") or 15)
        self.observation: object = None

    def reset(self, seed: int) -> bytes:
        """Begin an episode; returns the first frame."""
        self.observation, _ = self._env.reset(seed=seed)
        return self.frame()

    def step(self, action: Action) -> Moved:
        """Act."""
        move: object = action
        if isinstance(action, list):
            move = np.asarray(action, dtype=self._env.action_space.dtype)
        self.observation, reward, terminated, truncated, info = self._env.step(move)
        return Moved(action, float(reward), bool(terminated), bool(truncated), info)

    def frame(self) -> bytes:
        """What the player sees now, as PNG.

        Raises:
            PlayError: The environment draws nothing.
        """
        pixels: object = self._env.render()
        if not isinstance(pixels, np.ndarray) or pixels.ndim != 3:
            raise PlayError(f"{self.env_id} draws no picture in mode rgb_array")
        return encode_png(pixels)

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


def register_family(env_id: str) -> None:
    """Import the package that registers a family of environments.

    Raises:
        PlayError: It is not installed.
    """
    for prefix, package in _REGISTERING.items():
        if env_id.startswith(prefix):
            try:
                module = importlib.import_module(package)
            except ImportError as error:
                raise PlayError(f"{env_id} needs {package}: pip install {package}") from error
            gymnasium.register_envs(module)


def _make(env_id: str, kwargs: dict[str, Any]) -> gymnasium.Env[object, object]:
    register_family(env_id)
    try:
        return gymnasium.make(env_id, render_mode="rgb_array", **kwargs)
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        raise PlayError(f"{env_id} cannot be played: {error}") from error


def _keys_of(env_id: str, env: gymnasium.Env[object, object]) -> KeyMap:
    space = env.action_space
    choices = int(space.n) if hasattr(space, "n") else None
    bounds = None
    if choices is None and isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 1:
        bounds = (space.low.tolist(), space.high.tolist())
    # Atari names its actions: NOOP, FIRE, UP.
    offer = getattr(env.unwrapped, "get_action_meanings", None)
    names = [str(name).lower() for name in offer()] if offer is not None else []
    return key_map(env_id, choices, bounds, proposed_keys(env), names)
