"""A device environment as Gymnasium has them: for evaluations, videos, and other algorithms."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

from cleanrl_worker.kit.jax_backend import jax
from cleanrl_worker.kit.types import Array
from cleanrl_worker.ondevice import registry
from cleanrl_worker.ondevice.environment import State, Traced


class DeviceGame(gym.Env[Array, object]):
    """One environment of the device's registry, stepped from Python.

    All its randomness comes from Gymnasium's generator, so that a seed begins the same episode
    again.

    Args:
        env_id: Its id there.
        render_mode: `rgb_array` where pictures are wanted.
    """

    # Gymnasium's own class declares it like this, for each class to replace.
    metadata: dict[str, object] = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012

    def __init__(self, env_id: str, render_mode: str | None = None) -> None:
        self._env = registry.make(env_id)
        self.observation_space = self._env.observation_space
        self.action_space = self._env.action_space
        # Without pictures of its own it is filmed as what it is: without any.
        self.render_mode = render_mode if self._env.draws else None
        self._reset, self._step = jax.jit(self._env.reset), jax.jit(self._env.step)
        self._state: State = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[Array, dict[str, object]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self._state, obs = self._reset(self._key())
        return self._seen(obs), {}

    def step(self, action: object) -> tuple[Array, float, bool, bool, dict[str, object]]:
        """Take one step; the time limit is Gymnasium's wrapper."""
        after = self._step(self._state, np.asarray(action), self._key())
        self._state = after.state
        ends = bool(after.terminated), bool(after.truncated)
        return self._seen(after.obs), float(after.reward), *ends, {}

    def render(self) -> Array | None:
        """A picture of the present state; None where the environment draws none."""
        if self.render_mode is None:
            return None
        return self._env.draw(jax.tree.map(np.asarray, self._state))

    def _key(self) -> Traced:
        return jax.random.PRNGKey(int(self.np_random.integers(2**31)))

    def _seen(self, obs: Traced) -> Array:
        return np.asarray(obs, self.observation_space.dtype)


def register(env_id: str) -> None:
    """Let `gymnasium.make` build an environment that only the device's registry has."""
    known = gym.registry.get(env_id)
    if known is not None and known.kwargs.get("env_id") == env_id:
        return
    # Gymnasium's own tabular environments declare spaces that no network acts in; ours do.
    gym.registry.pop(env_id, None)
    gym.register(
        env_id,
        entry_point=f"{__name__}:DeviceGame",
        kwargs={"env_id": env_id},
        max_episode_steps=registry.make(env_id).time_limit,
    )
