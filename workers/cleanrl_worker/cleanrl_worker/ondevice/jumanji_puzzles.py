"""Puzzles and routes of Jumanji (`jumanji/…`).

An observation holds grids, masks and counters; here it is one row of all its numbers. An action of
several choices, such as row, column and digit, is one number for each combination. The package
draws in Matplotlib windows only, so there are no pictures.
"""

from __future__ import annotations

import math

import jumanji
import numpy as np
from gymnasium import spaces

from cleanrl_worker.kit.jax_backend import jax, jnp
from cleanrl_worker.ondevice.adapting import SOME_KEY, row, row_space, same_types
from cleanrl_worker.ondevice.environment import DeviceEnv, State, Traced, Transition


class Puzzle(DeviceEnv):
    """One puzzle. The state is the package's own."""

    large = True

    def __init__(self, name: str) -> None:
        self._env = jumanji.make(name)
        choices = np.atleast_1d(np.asarray(self._env.action_spec.num_values)).ravel()
        self._choices = tuple(int(count) for count in choices)
        self._one = not self._env.action_spec.shape
        self._type = self._env.action_spec.dtype
        self.action_space = spaces.Discrete(math.prod(self._choices))
        _, first = jax.eval_shape(self._env.reset, SOME_KEY)
        self.observation_space = row_space(jax.eval_shape(row, first.observation))

    def reset(self, key: Traced) -> tuple[State, Traced]:
        """A new puzzle."""
        state, first = self._env.reset(key)
        return state, row(first.observation)

    def step(self, state: State, action: Traced, key: Traced) -> Transition:
        """One move."""
        after, step = self._env.step(state, self._choice(action))
        # The package says with a discount of 0 that nothing more could have followed.
        terminated = step.last() & (step.discount == 0.0)
        return Transition(
            same_types(after, state),
            row(step.observation),
            step.reward.astype(jnp.float32),
            terminated,
            step.last() & ~terminated,
        )

    def _choice(self, action: Traced) -> Traced:
        if self._one:
            return action.astype(self._type)
        return jnp.stack(jnp.unravel_index(action, self._choices)).astype(self._type)


def make(name: str, _prefix: str) -> Puzzle:
    """The environment of this name."""
    return Puzzle(name)
