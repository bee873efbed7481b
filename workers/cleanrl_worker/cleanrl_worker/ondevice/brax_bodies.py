"""Bodies of brax (`brax/…`), stepped by its own physics in generalized coordinates.

Related to Gymnasium's MuJoCo tasks, but not the same: other physics, rewards and observations. For
a GPU; on a processor MuJoCo itself is many times as fast.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from gymnasium import spaces

from cleanrl_worker.kit.jax_backend import jax, jnp
from cleanrl_worker.kit.types import Array
from cleanrl_worker.ondevice.adapting import SOME_KEY, row_space, same_types
from cleanrl_worker.ondevice.environment import DeviceEnv, State, Traced, Transition


@contextmanager
def quiet() -> Iterator[None]:
    """Call brax without its warnings.

    It says at every import, body and trace that MJX is maintained and it is not, and that it
    uses names that MJX considers private. The guide says so once.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


with quiet():
    from brax import envs

if TYPE_CHECKING:
    import mujoco

_HEIGHT, _WIDTH = 240, 320


class Body(DeviceEnv):
    """One body. The state is the package's own."""

    large, draws = True, True
    # The package's own, for which its rewards are made.
    time_limit = 1000

    def __init__(self, name: str) -> None:
        with quiet():
            self._env = envs.get_environment(name)
            first = jax.eval_shape(self._env.reset, SOME_KEY)
        self.observation_space = row_space(first.obs)
        self.action_space = spaces.Box(-1.0, 1.0, (int(self._env.action_size),), np.float32)
        self._camera: mujoco.Renderer | None = None

    def reset(self, key: Traced) -> tuple[State, Traced]:
        """Near the body's rest."""
        with quiet():
            state = self._env.reset(key)
        return state, state.obs

    def step(self, state: State, action: Traced, key: Traced) -> Transition:
        """Some steps of the physics with the same torques."""
        with quiet():
            after = same_types(self._env.step(state, action), state)
        return Transition(after, after.obs, after.reward, after.done > 0.5, jnp.bool_(False))

    def draw(self, state: State) -> Array:
        """The body as MuJoCo draws it."""
        import mujoco

        model = self._env.sys.mj_model
        if self._camera is None:
            # Building one takes as long as a hundred pictures.
            self._camera = mujoco.Renderer(model, _HEIGHT, _WIDTH)
        data = mujoco.MjData(model)
        data.qpos, data.qvel = (
            np.asarray(state.pipeline_state.q),
            np.asarray(state.pipeline_state.qd),
        )
        mujoco.mj_forward(model, data)
        self._camera.update_scene(data)
        picture: Array = self._camera.render()
        return picture


def make(name: str, _prefix: str) -> Body:
    """The environment of this name."""
    return Body(name)
