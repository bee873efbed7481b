"""Gymnasium wrappers that put a tap on an environment and change nothing else about it."""

import math
from collections.abc import Sequence
from typing import Any, SupportsFloat, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.wrappers import OrderEnforcing
from numpy.typing import NDArray

from mosaic.fastlane import BadFrameError
from mosaic.fastlane.cameras import Picture, photograph
from mosaic.fastlane.settings import Settings
from mosaic.fastlane.tap import FrameTap

# Observations, actions and infos are whatever the script's environment has: they pass through.
Opaque: TypeAlias = Any
Env: TypeAlias = gym.Env[Opaque, Opaque]
Wrapper: TypeAlias = gym.Wrapper[Opaque, Opaque, Opaque, Opaque]
Batch: TypeAlias = VectorEnv[Opaque, Opaque, Opaque]
Info: TypeAlias = dict[str, Opaque]
StepResult: TypeAlias = tuple[Opaque, SupportsFloat, bool, bool, Info]
BatchResult: TypeAlias = tuple[Opaque, Opaque, Opaque, Opaque, Info]
Array: TypeAlias = NDArray[Opaque]

# A zero of its own: adding any reward to it, even nothing, gives another object.
_NOT_STEPPED = float("0")


class FastLaneWrapper(OrderEnforcing[Opaque, Opaque]):
    """Shows an environment to everyone who watches the run.

    Takes the place of the order-enforcing wrapper that `make` puts around most environments, and
    does its duty too. One wrapper more would cost the fastest environments a percent of their speed
    in every unwatched run; this way there is not one more.

    Args:
        env: The environment to show.
        settings: How to show it.
        enforces_order: Whether `step` before `reset` is an error.
    """

    def __init__(self, env: Env, settings: Settings, *, enforces_order: bool = False) -> None:
        super().__init__(env, disable_render_order_enforcing=not enforces_order)
        self._fastlane_enforces_order = enforces_order
        self._has_reset = not enforces_order
        self._fastlane_tap = FrameTap(settings=settings)
        self._fastlane_left = 0
        self._fastlane_stride = 0
        # A float, or whatever adding the script's rewards to one makes. Not converted: this is
        # the hot path of every unwatched step.
        self._fastlane_return: Opaque = _NOT_STEPPED

    @property
    def spec(self) -> EnvSpec | None:
        """The spec the environment would have without this wrapper."""
        return super().spec if self._fastlane_enforces_order else self.env.spec

    def step(self, action: object) -> StepResult:
        """Step the environment."""
        if not self._has_reset:
            return super().step(action)
        result = self.env.step(action)
        try:
            self._fastlane_return += result[1]
        except TypeError:
            self._fastlane_return = math.nan
        self._fastlane_left -= 1
        if self._fastlane_left < 0:
            self._fastlane_look(result[1])
        return result

    def reset(self, **options: Opaque) -> tuple[Opaque, Info]:
        """Reset the environment."""
        if self._fastlane_return is not _NOT_STEPPED:
            self._fastlane_tap.episode(self._fastlane_return)
            self._fastlane_return = _NOT_STEPPED
        if self._fastlane_enforces_order:
            return super().reset(**options)
        return self.env.reset(**options)

    def close(self) -> None:
        """Close the environment."""
        self._fastlane_tap.close()
        self.env.close()

    def _fastlane_look(self, reward: SupportsFloat) -> None:
        taken = self._fastlane_stride + 1
        self._fastlane_stride = self._fastlane_tap.look(taken, self._fastlane_camera, reward)
        self._fastlane_left = self._fastlane_stride

    def _fastlane_camera(self, wanted: Sequence[int]) -> Sequence[Picture]:
        picture = photograph(self.env)
        return picture[-1:] if isinstance(picture, list | tuple) else [picture]


class FastLaneVectorWrapper(VectorWrapper):
    """Shows a natively vectorised environment.

    One that cannot render but observes pictures, as Atari's does, is shown by its newest
    observation.
    """

    def __init__(self, env: Batch, settings: Settings) -> None:
        super().__init__(env)
        self._fastlane_tap = FrameTap(self._shoot, num_envs=env.num_envs, settings=settings)
        self._fastlane_observation: object = None
        self._fastlane_returns: Array | None = None

    def step(self, actions: object) -> BatchResult:
        """Step every environment."""
        result = self.env.step(actions)
        tap = self._fastlane_tap
        self._fastlane_observation = result[0]
        if tap.watched:
            self._add_up(result[1], result[2] | result[3])
        else:
            self._fastlane_returns = None
        tap.step(result[1])
        return result

    def reset(self, **options: Opaque) -> tuple[Opaque, Info]:
        """Reset every environment."""
        result = self.env.reset(**options)
        self._fastlane_observation = result[0]
        self._fastlane_returns = None
        return result

    def close(self, **options: object) -> None:
        """Close every environment."""
        self._fastlane_tap.close()
        self.env.close(**options)

    def _add_up(self, rewards: Array, ended: Array) -> None:
        returns = self._fastlane_returns
        if returns is None:
            # Unknown until an environment's first whole episode begins.
            returns = self._fastlane_returns = np.full(self.num_envs, np.nan)
        returns += rewards
        if ended.any():
            for value in returns[ended]:
                self._fastlane_tap.episode(float(value))
            returns[ended] = 0.0

    def _shoot(self) -> Picture:
        try:
            return photograph(self.env)
        except (BadFrameError, NotImplementedError):
            pictures = _newest_pictures(self._fastlane_observation)
            if pictures is None:
                raise
            return pictures


def _newest_pictures(observation: object) -> Sequence[Array] | None:
    """Return the newest picture of each environment if that is what it observes."""
    if not isinstance(observation, np.ndarray) or observation.dtype != np.uint8:
        return None
    if observation.ndim == 5 or (observation.ndim == 4 and observation.shape[-1] not in (1, 3)):
        return list(observation[:, -1])
    return list(observation) if observation.ndim == 4 else None
