"""A replay memory on the device: arrays that a compiled program writes to and draws from."""

from __future__ import annotations

from typing import NamedTuple

from gymnasium import spaces

from cleanrl_worker.kit.jax_backend import jax, jnp
from cleanrl_worker.ondevice.batch import DeviceEnvs, Games, Outcome
from cleanrl_worker.ondevice.environment import Traced


class Transitions(NamedTuple):
    """Steps of environments, one a row."""

    obs: Traced
    next_obs: Traced
    actions: Traced
    rewards: Traced
    dones: Traced
    """1 where the episode terminated; one that was cut off continues"""


class Memory(NamedTuple):
    """The newest transitions, in a ring."""

    rows: Transitions
    added: Traced
    """how many were ever added"""

    @property
    def filled(self) -> Traced:
        """How many rows hold a transition."""
        return jnp.minimum(self.added, len(self.rows.rewards))


def empty_memory(envs: DeviceEnvs, size: int) -> Memory:
    """A memory for so many transitions, rounded up to whole steps of all environments."""
    rows = -(-size // envs.num_envs) * envs.num_envs
    space = envs.single_observation_space
    obs = jnp.zeros((rows, *space.shape), space.dtype)
    action = envs.single_action_space
    if isinstance(action, spaces.Box):
        actions = jnp.zeros((rows, *action.shape), jnp.float32)
    else:
        actions = jnp.zeros(rows, jnp.int32)
    numbers = jnp.zeros(rows, jnp.float32)
    return Memory(Transitions(obs, obs, actions, numbers, numbers), jnp.int32(0))


def remember(memory: Memory, games: Games, actions: Traced, outcome: Outcome) -> Memory:
    """Add what one step of all environments gave, in the place of the oldest rows."""
    new = Transitions(
        games.obs,
        outcome.next_obs,
        actions,
        outcome.rewards,
        outcome.terminated.astype(jnp.float32),
    )
    # The ring has whole steps only, so that a step never has to be split at its end.
    place = memory.added % len(memory.rows.rewards)

    def write(rows: Traced, step: Traced) -> Traced:
        return jax.lax.dynamic_update_slice_in_dim(rows, step.astype(rows.dtype), place, 0)

    rows = jax.tree.map(write, memory.rows, new)
    return Memory(rows, memory.added + len(outcome.rewards))


def draw(memory: Memory, key: Traced, count: int) -> Transitions:
    """So many transitions at random, each as likely as any other; one may come twice."""
    places = jax.random.randint(key, (count,), 0, memory.filled)
    drawn: Transitions = jax.tree.map(lambda rows: rows[places], memory.rows)
    return drawn
