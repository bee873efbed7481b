"""Gymnasium's own environments in JAX (`phys2d/…`, `tabular/…`).

`phys2d/CartPole` is not `CartPole-v1`: it computes the pole's moment as a sum where it should be a
product.
"""

from __future__ import annotations

import importlib

import numpy as np
from gymnasium import spaces

from cleanrl_worker.kit.jax_backend import jax, jnp
from cleanrl_worker.kit.types import Array
from cleanrl_worker.ondevice.adapting import row, row_space, same_types
from cleanrl_worker.ondevice.environment import DeviceEnv, State, Traced, Transition

# Module, class and time limit, as Gymnasium registers them. Not asked of its registry, where the
# id may mean our adapter for evaluations.
_FUNCTIONS = {
    "phys2d/CartPole-v0": ("phys2d.cartpole", "CartPoleFunctional", 200),
    "phys2d/CartPole-v1": ("phys2d.cartpole", "CartPoleFunctional", 500),
    "phys2d/Pendulum-v0": ("phys2d.pendulum", "PendulumFunctional", 200),
    "tabular/Blackjack-v0": ("tabular.blackjack", "BlackjackFunctional", None),
    "tabular/CliffWalking-v0": ("tabular.cliffwalking", "CliffWalkingFunctional", None),
}


class Functional(DeviceEnv):
    """One of them. The state is Gymnasium's own.

    Args:
        name: Its name behind the slash.
        space: Its name before it.
    """

    draws = True

    def __init__(self, name: str, space: str) -> None:
        module, kind, self.time_limit = _FUNCTIONS[f"{space}/{name}"]
        self._env = getattr(importlib.import_module(f"gymnasium.envs.{module}"), kind)()
        actions = self._env.action_space
        self._shape = actions.shape
        # Gymnasium declares the four directions of a walk as an interval of whole numbers.
        if isinstance(actions, spaces.Box) and actions.dtype == np.int32:
            actions = spaces.Discrete(int(actions.high.max()) + 1)
        self.action_space = actions
        self.observation_space = row_space(jax.eval_shape(self.reset, jax.random.PRNGKey(0))[1])
        self._brush: object = None

    def reset(self, key: Traced) -> tuple[State, Traced]:
        """As Gymnasium begins an episode."""
        state = jax.tree.map(jnp.asarray, self._env.initial(key))
        return state, row(self._env.observation(state, key))

    def step(self, state: State, action: Traced, key: Traced) -> Transition:
        """One step, with its reward and its end computed from the states before and after."""
        action = action.reshape(self._shape)
        after = same_types(self._env.transition(state, action, key), state)
        reward = self._env.reward(state, action, after, key)
        return Transition(
            after,
            row(self._env.observation(after, key)),
            jnp.asarray(reward, jnp.float32).reshape(()),
            jnp.asarray(self._env.terminal(after, key), bool).reshape(()),
            jnp.bool_(False),
        )

    def draw(self, state: State) -> Array:
        """Gymnasium's picture."""
        if self._brush is None:
            self._brush = self._env.render_init()
        self._brush, picture = self._env.render_image(state, self._brush)
        drawn: Array = np.asarray(picture)
        return drawn


make = Functional
