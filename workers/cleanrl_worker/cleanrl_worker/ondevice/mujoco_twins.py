"""Gymnasium's MuJoCo tasks on the device, stepped by MJX.

MJX is MuJoCo written in JAX. The bodies are Gymnasium's own files, and observation, reward and end
of an episode are computed as there, so a task means the same on the device and off it. MuJoCo
computes in 64 bits and MJX in 32: a step from the same state differs in the fourth digit at most.

These are for a GPU. On a processor MuJoCo itself steps several times as fast.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import gymnasium as gym
from mujoco import mjx

from cleanrl_worker.kit.jax_backend import jax, jnp
from cleanrl_worker.kit.types import Env
from cleanrl_worker.ondevice.environment import DeviceEnv, State, Traced, Transition

# MuJoCo allows a hundred iterations and stops when the solution no longer improves. In 32 bits it
# improves for ever in the last digit, and in a batch all wait for the slowest. After six nothing
# changes that these bits can hold; after four one step of Walker2d in a hundred still did.
_ITERATIONS, _LINE_SEARCHES = 8, 8


class Body(NamedTuple):
    """Where a body is, and the solver's first guess for the next step."""

    qpos: Traced
    qvel: Traced
    guess: Traced


class MujocoTwin(DeviceEnv):
    """A task that moves forward: what all of them share.

    Attributes:
        noise: How far from the model's rest an episode begins.
        effort: The price of a squared action.
        hidden: How many positions are left out of the observation: where the body is in the world.
    """

    noise: float
    effort: float
    hidden = 1
    time_limit = 1000
    large = True

    def __init__(self) -> None:
        game = gym.make(self.twin)
        self.observation_space, self.action_space = game.observation_space, game.action_space
        of_task = game.unwrapped.get_wrapper_attr
        model = copy.deepcopy(of_task("model"))
        model.opt.iterations, model.opt.ls_iterations = _ITERATIONS, _LINE_SEARCHES
        self._model, self._blank = mjx.put_model(model), mjx.make_data(model)
        self._frames, self._seconds = of_task("frame_skip"), float(of_task("dt"))
        self._rest = jnp.asarray(of_task("init_qpos"), jnp.float32)
        game.close()

    def reset(self, key: Traced) -> tuple[State, Traced]:
        """Near the model's rest."""
        first, second = jax.random.split(key)
        speeds = len(self._blank.qvel)
        qpos = self._rest + self._uniform(first, len(self._rest))
        body = Body(qpos, self._first_speeds(second, speeds), jnp.zeros(speeds))
        return body, self._seen(body)

    def step(self, state: State, action: Traced, key: Traced) -> Transition:
        """Some steps of the physics with the same torques."""
        data = self._blank.replace(
            qpos=state.qpos, qvel=state.qvel, qacc_warmstart=state.guess, ctrl=action
        )
        data = jax.lax.fori_loop(0, self._frames, lambda _, now: mjx.step(self._model, now), data)
        body = Body(data.qpos, data.qvel, data.qacc_warmstart)
        speed = (body.qpos[0] - state.qpos[0]) / self._seconds
        healthy = self._healthy(body)
        reward = self._worth(speed, healthy) - self.effort * jnp.square(action).sum()
        return Transition(body, self._seen(body), reward, ~healthy, jnp.bool_(False))

    def pose(self, twin: Env, state: State) -> None:
        """MuJoCo's environments are set by position and speed."""
        twin.get_wrapper_attr("set_state")(state.qpos, state.qvel)

    def _uniform(self, key: Traced, size: int) -> Traced:
        return jax.random.uniform(key, (size,), jnp.float32, -self.noise, self.noise)

    def _first_speeds(self, key: Traced, size: int) -> Traced:
        return self._uniform(key, size)

    def _seen(self, body: Body) -> Traced:
        return jnp.concatenate([body.qpos[self.hidden :], body.qvel])

    def _healthy(self, body: Body) -> Traced:
        """Whether the episode continues."""
        healthy: Traced = jnp.bool_(True)
        return healthy

    def _worth(self, speed: Traced, healthy: Traced) -> Traced:
        """The reward before the price of the action."""
        return speed


class HalfCheetah(MujocoTwin):
    """A cheetah in the plane, which cannot fall."""

    twin, noise, effort = "HalfCheetah-v5", 0.1, 0.1

    def _first_speeds(self, key: Traced, size: int) -> Traced:
        return self.noise * jax.random.normal(key, (size,), jnp.float32)


class Swimmer(MujocoTwin):
    """A chain of three links in a thick fluid."""

    twin, noise, effort, hidden = "Swimmer-v5", 0.1, 1e-4, 2


class _Walker(MujocoTwin):
    """A body that has to stay upright, and is paid for it."""

    noise, effort = 5e-3, 1e-3

    def _seen(self, body: Body) -> Traced:
        return jnp.concatenate([body.qpos[self.hidden :], body.qvel.clip(-10, 10)])

    def _worth(self, speed: Traced, healthy: Traced) -> Traced:
        return speed + healthy


class Hopper(_Walker):
    """One leg."""

    twin = "Hopper-v5"

    def _healthy(self, body: Body) -> Traced:
        height, angle = body.qpos[1], body.qpos[2]
        rest = jnp.concatenate([body.qpos[2:], body.qvel])
        return (jnp.abs(rest) < 100).all() & (height > 0.7) & (jnp.abs(angle) < 0.2)


class Walker2d(_Walker):
    """Two legs."""

    twin = "Walker2d-v5"

    def _healthy(self, body: Body) -> Traced:
        height, angle = body.qpos[1], body.qpos[2]
        return (height > 0.8) & (height < 2.0) & (jnp.abs(angle) < 1.0)
