"""Gymnasium's classic control in JAX: the same equations, limits and rewards.

Gymnasium computes in 64 bits and these in 32, so long episodes drift apart by rounding; a tape of
actions played from the same state gives the same episode to float tolerance
(`tests/algorithms/test_ondevice_environments.py`).
"""

from __future__ import annotations

import math

import numpy as np
from gymnasium import spaces

from cleanrl_worker.kit.jax_backend import jax, jnp
from cleanrl_worker.kit.types import Space
from cleanrl_worker.ondevice.environment import DeviceEnv, State, Traced, Transition

NEVER = np.bool_(False)


def _symmetric(*high: float) -> spaces.Box:
    bounds = np.array(high, np.float32)
    return spaces.Box(-bounds, bounds)


def _uniform(key: Traced, low: float, high: float, size: int) -> Traced:
    return jax.random.uniform(key, (size,), jnp.float32, low, high)


class CartPole(DeviceEnv):
    """A pole on a cart that is pushed left or right (Barto, Sutton and Anderson, 1983)."""

    observation_space = _symmetric(4.8, np.inf, 0.41887903, np.inf)
    action_space = spaces.Discrete(2)
    time_limit = 500
    twin = "CartPole-v1"

    GRAVITY, CART, POLE, HALF_LENGTH, FORCE, SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
    FARTHEST, LARGEST_ANGLE = 2.4, 12 * 2 * math.pi / 360

    def reset(self, key: Traced) -> tuple[State, Traced]:
        """The cart near the middle, the pole nearly upright."""
        state = _uniform(key, -0.05, 0.05, 4)
        return state, state

    def step(self, state: State, action: Traced, key: Traced) -> Transition:
        """One push; each step is worth 1, the last one too."""
        position, speed, angle, turning = state
        force = jnp.where(action == 1, self.FORCE, -self.FORCE)
        total, moment = self.CART + self.POLE, self.POLE * self.HALF_LENGTH
        sine, cosine = jnp.sin(angle), jnp.cos(angle)
        pushed = (force + moment * turning**2 * sine) / total
        swing = (self.GRAVITY * sine - cosine * pushed) / (
            self.HALF_LENGTH * (4.0 / 3.0 - self.POLE * cosine**2 / total)
        )
        acceleration = pushed - moment * swing * cosine / total
        # Positions move with the speeds from before the push (explicit Euler), as in Gymnasium.
        state = jnp.stack(
            [
                position + self.SECONDS * speed,
                speed + self.SECONDS * acceleration,
                angle + self.SECONDS * turning,
                turning + self.SECONDS * swing,
            ]
        )
        fallen = (jnp.abs(state[0]) > self.FARTHEST) | (jnp.abs(state[2]) > self.LARGEST_ANGLE)
        return Transition(state, state, jnp.float32(1.0), fallen, NEVER)


class Acrobot(DeviceEnv):
    """Two links, the joint between them driven; swing the tip above a line (Sutton, 1996)."""

    observation_space = _symmetric(1.0, 1.0, 1.0, 1.0, 12.566371, 28.274334)
    action_space = spaces.Discrete(3)
    time_limit = 500
    twin = "Acrobot-v1"

    SECONDS, FASTEST = 0.2, (4 * math.pi, 9 * math.pi)

    def reset(self, key: Traced) -> tuple[State, Traced]:
        """Hanging down, nearly at rest."""
        state = _uniform(key, -0.1, 0.1, 4)
        return state, self._observe(state)

    def step(self, state: State, action: Traced, key: Traced) -> Transition:
        """One torque, held for a fifth of a second; each step costs 1 until the line is reached."""
        torque = action.astype(jnp.float32) - 1.0
        # Runge and Kutta's fourth order, over the whole time at once.
        time = self.SECONDS
        first = self._change(state, torque)
        second = self._change(state + time / 2 * first, torque)
        third = self._change(state + time / 2 * second, torque)
        fourth = self._change(state + time * third, torque)
        moved = state + time / 6 * (first + 2 * second + 2 * third + fourth)
        state = jnp.stack(
            [
                _wrapped(moved[0]),
                _wrapped(moved[1]),
                moved[2].clip(-self.FASTEST[0], self.FASTEST[0]),
                moved[3].clip(-self.FASTEST[1], self.FASTEST[1]),
            ]
        )
        above = -jnp.cos(state[0]) - jnp.cos(state[1] + state[0]) > 1.0
        return Transition(state, self._observe(state), jnp.where(above, 0.0, -1.0), above, NEVER)

    @staticmethod
    def _observe(state: State) -> Traced:
        angles = state[:2]
        turned = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1).ravel()
        return jnp.concatenate([turned, state[2:]])

    @staticmethod
    def _change(state: State, torque: Traced) -> Traced:
        """Speeds and accelerations of both joints; masses and lengths are 1, centres at 0.5."""
        one, two, speed_one, speed_two = state
        gravity, inertia = 9.8, 1.0
        sine, cosine = jnp.sin(two), jnp.cos(two)
        d1 = 0.25 + (1.25 + cosine) + 2 * inertia
        d2 = 0.25 + 0.5 * cosine + inertia
        phi2 = 0.5 * gravity * jnp.cos(one + two - math.pi / 2)
        phi1 = (
            -0.5 * speed_two**2 * sine
            - speed_two * speed_one * sine
            + 1.5 * gravity * jnp.cos(one - math.pi / 2)
            + phi2
        )
        bend = (torque + d2 / d1 * phi1 - 0.5 * speed_one**2 * sine - phi2) / (
            0.25 + inertia - d2**2 / d1
        )
        return jnp.stack([speed_one, speed_two, -(d2 * bend + phi1) / d1, bend])


class MountainCar(DeviceEnv):
    """A car too weak for the hill must build up momentum (Moore, 1990)."""

    observation_space = spaces.Box(
        np.array([-1.2, -0.07], np.float32), np.array([0.6, 0.07], np.float32)
    )
    action_space: Space = spaces.Discrete(3)
    time_limit = 200
    twin = "MountainCar-v0"

    GOAL = 0.5

    def reset(self, key: Traced) -> tuple[State, Traced]:
        """At rest in the valley."""
        state = jnp.stack([_uniform(key, -0.6, -0.4, 1)[0], jnp.float32(0.0)])
        return state, state

    def step(self, state: State, action: Traced, key: Traced) -> Transition:
        """Push left, not at all or right; each step costs 1."""
        state, arrived = self._move(state, 0.001 * (action.astype(jnp.float32) - 1.0))
        return Transition(state, state, jnp.float32(-1.0), arrived, NEVER)

    def _move(self, state: State, push: Traced) -> tuple[State, Traced]:
        speed = (state[1] + push - 0.0025 * jnp.cos(3 * state[0])).clip(-0.07, 0.07)
        position = (state[0] + speed).clip(-1.2, 0.6)
        # The wall on the left stops the car.
        speed = jnp.where((position <= np.float32(-1.2)) & (speed < 0), 0.0, speed)
        return jnp.stack([position, speed]), (position >= self.GOAL) & (speed >= 0)


class MountainCarContinuous(MountainCar):
    """The same hill with a throttle."""

    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    time_limit = 999
    twin = "MountainCarContinuous-v0"

    GOAL = 0.45

    def step(self, state: State, action: Traced, key: Traced) -> Transition:
        """A push of any strength; the top is worth 100, pushing costs."""
        state, arrived = self._move(state, 0.0015 * action[0].clip(-1.0, 1.0))
        reward = jnp.where(arrived, 100.0, 0.0) - 0.1 * action[0] ** 2
        return Transition(state, state, reward, arrived, NEVER)


class Pendulum(DeviceEnv):
    """A pendulum to swing up and to hold there with a weak motor."""

    observation_space = _symmetric(1.0, 1.0, 8.0)
    action_space = spaces.Box(-2.0, 2.0, (1,), np.float32)
    time_limit = 200
    twin = "Pendulum-v1"

    def reset(self, key: Traced) -> tuple[State, Traced]:
        """Anywhere, turning slowly."""
        state = _uniform(key, -1.0, 1.0, 2) * jnp.array([math.pi, 1.0], jnp.float32)
        return state, self._observe(state)

    def step(self, state: State, action: Traced, key: Traced) -> Transition:
        """One torque; the cost grows with the angle from upright, the speed and the torque."""
        angle, speed = state
        torque = action[0].clip(-2.0, 2.0)
        cost = _wrapped(angle) ** 2 + 0.1 * speed**2 + 0.001 * torque**2
        speed = (speed + 0.05 * (15.0 * jnp.sin(angle) + 3.0 * torque)).clip(-8.0, 8.0)
        state = jnp.stack([angle + 0.05 * speed, speed])
        return Transition(state, self._observe(state), -cost, NEVER, NEVER)

    @staticmethod
    def _observe(state: State) -> Traced:
        return jnp.stack([jnp.cos(state[0]), jnp.sin(state[0]), state[1]])


def _wrapped(angle: Traced) -> Traced:
    """The same angle between minus pi and pi."""
    return (angle + math.pi) % (2 * math.pi) - math.pi
