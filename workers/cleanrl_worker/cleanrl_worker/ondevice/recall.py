"""`mosaic/Recall-v0` in JAX; `cleanrl_worker.games.recall` says what it is."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from cleanrl_worker.games.recall import HIDDEN, REACH, RIGHT, SHOWN
from cleanrl_worker.kit.jax_backend import jax, jnp
from cleanrl_worker.ondevice.environment import DeviceEnv, State, Traced, Transition


class Recall(DeviceEnv):
    """One walk; the state is the cue, the place and the time. It has no pictures, so no twin."""

    observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = spaces.Discrete(2)
    time_limit = 40

    def reset(self, key: Traced) -> tuple[State, Traced]:
        """Draw a cue and return to the middle."""
        cue = jnp.where(jax.random.bernoulli(key), 1.0, -1.0)
        state = jnp.array([0.0, 0.0, 0.0]).at[0].set(cue)
        return state, self._look(state)

    def step(self, state: State, action: Traced, key: Traced) -> Transition:
        """Wait, or walk one place to either side."""
        cue, place, time = state
        walked = jnp.where(action == RIGHT, 1.0, -1.0)
        place = place + jnp.where(time >= SHOWN + HIDDEN, walked, 0.0)
        state = jnp.stack([cue, place, time + 1])
        arrived = jnp.abs(place) == REACH
        reward = jnp.where(arrived, jnp.sign(place) * cue, 0.0)
        return Transition(state, self._look(state), reward, arrived, np.bool_(False))

    @staticmethod
    def _look(state: State) -> Traced:
        cue, place, time = state
        shown = jnp.where(time < SHOWN, cue, 0.0)
        walks = (time >= SHOWN + HIDDEN).astype(jnp.float32)
        return jnp.stack([place / REACH, shown, walks])
