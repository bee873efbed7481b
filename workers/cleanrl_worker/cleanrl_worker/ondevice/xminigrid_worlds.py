"""XLand-MiniGrid's MiniGrid worlds (`xminigrid/…`).

An observation is the square of cells that the agent sees, each as a one-hot tile and a one-hot
colour: the numbers that the package gives have no order that a network could use.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import xminigrid
from gymnasium import spaces
from xminigrid.core.constants import NUM_COLORS, NUM_TILES
from xminigrid.rendering.rgb_render import render

from cleanrl_worker.kit.jax_backend import jax, jnp
from cleanrl_worker.kit.types import Array
from cleanrl_worker.ondevice.adapting import same_types
from cleanrl_worker.ondevice.environment import DeviceEnv, State, Traced, Transition


class World(DeviceEnv):
    """One of its worlds. The state is the package's own."""

    draws = True

    def __init__(self, name: str) -> None:
        self._env, self._params = xminigrid.make(name)
        view = self._params.view_size
        self.observation_space = spaces.Box(
            0.0, 1.0, (view, view, NUM_TILES + NUM_COLORS), np.float32
        )
        self.action_space = spaces.Discrete(int(self._env.num_actions(self._params)))

    def reset(self, key: Traced) -> tuple[State, Traced]:
        """A new world."""
        first = self._env.reset(self._params, key)
        assert isinstance(first.observation, jax.Array), "only worlds of one picture are offered"
        return first.state, self._one_hot(first.observation)

    def step(self, state: State, action: Traced, key: Traced) -> Transition:
        """Turn, walk, pick up, put down or toggle."""
        # Of what was before, the package reads the state alone.
        now: Any = SimpleNamespace(state=state)
        after: Any = self._env.step(self._params, now, action)
        # The package ends an episode for two reasons; only reaching the goal leaves no future.
        terminated = after.discount == 0.0
        return Transition(
            same_types(after.state, state),
            self._one_hot(after.observation),
            after.reward.astype(jnp.float32),
            terminated,
            after.last() & ~terminated,
        )

    def draw(self, state: State) -> Array:
        """The package's own picture."""
        picture: Array = render(np.asarray(state.grid), state.agent, self._params.view_size)
        return picture

    @staticmethod
    def _one_hot(cells: Traced) -> Traced:
        tiles = jax.nn.one_hot(cells[..., 0], NUM_TILES)
        return jnp.concatenate([tiles, jax.nn.one_hot(cells[..., 1], NUM_COLORS)], axis=-1)


def make(name: str, _prefix: str) -> World:
    """The environment of this name."""
    return World(name)
