"""A batch of one environment, stepped inside compiled code and reset in the same step."""

from __future__ import annotations

from typing import NamedTuple, TypedDict

from gymnasium import spaces

from cleanrl_worker.kit import observations
from cleanrl_worker.kit.jax_backend import jax, jnp
from cleanrl_worker.ondevice import registry
from cleanrl_worker.ondevice.environment import State, Traced, Transition
from cleanrl_worker.ondevice.loops import unroll
from mosaic.curves.names import LAST_EPISODES


class Games(NamedTuple):
    """Where the environments of a batch are."""

    states: State
    obs: Traced
    returns: Traced
    lengths: Traced


class Outcome(NamedTuple):
    """What one step of every environment gave."""

    rewards: Traced
    terminated: Traced
    truncated: Traced
    next_obs: Traced
    """the true next observations: where an episode ended, its last one, not that of the next"""
    returns: Traced
    """the returns and lengths so far; those of whole episodes where one ended"""
    lengths: Traced


class Draws(NamedTuple):
    """What steps draw at random, `(steps, ...)`; one row is what one step draws."""

    steps: Traced
    """a key for each environment"""
    resets: State
    """on a CPU one key for all; on a GPU the beginnings themselves, states and observations"""


class Ended(TypedDict):
    """The episodes that ended in an iteration: how many, and the newest of them, oldest first."""

    count: Traced
    returns: Traced
    lengths: Traced


class DeviceEnvs:
    """So many environments of one id.

    Args:
        env_id: Their id, see `cleanrl_worker.ondevice.registry`.
        num_envs: How many.

    Raises:
        UsageError: There is no such environment.
    """

    def __init__(self, env_id: str, num_envs: int) -> None:
        self.env = registry.make(env_id)
        self.num_envs = num_envs
        self.single_observation_space, _ = observations.encoder(self.env.observation_space)
        self.single_action_space = self.env.action_space
        self._flat = self.single_observation_space.shape
        space = self.env.action_space
        self._box = space if isinstance(space, spaces.Box) else None

    @property
    def unroll(self) -> int:
        """How many steps of a rollout are compiled as one."""
        # Not when it is built: asking for the backend starts JAX, and how many processors it may
        # use is decided by `start`, which comes later.
        return 1 if self.env.large else unroll()

    def reset(self, key: Traced) -> Games:
        """Begin an episode in every environment."""
        states, obs = self._fresh(key)
        zeros = jnp.zeros(self.num_envs, jnp.float32)
        return Games(states, obs, zeros, zeros.astype(jnp.int32))

    def draws(self, key: Traced, num_steps: int) -> Draws:
        """All that so many steps draw at random; each step takes one row of it."""
        shape = (num_steps, self.num_envs)
        stepping, beginning = jax.random.split(key)
        keys = jax.random.split(stepping, shape)
        if jax.default_backend() == "cpu":
            return Draws(keys, jax.random.split(beginning, num_steps))
        # On a GPU every kernel inside the loop over steps costs more than its arithmetic: there
        # the beginnings of all episodes that might begin are drawn at once.
        resets = jax.vmap(jax.vmap(self.env.reset))(jax.random.split(beginning, shape))
        return Draws(keys, resets)

    def step(self, games: Games, actions: Traced, draw: Draws) -> tuple[Games, Outcome]:
        """Step every environment; one whose episode ends begins the next in the same step."""
        if self._box is not None:
            actions = actions.clip(self._box.low, self._box.high)
        after: Transition = jax.vmap(self.env.step)(games.states, actions, draw.steps)
        next_obs = self._encoded(after.obs)
        returns, lengths = games.returns + after.reward, games.lengths + 1
        truncated = jnp.broadcast_to(after.truncated, (self.num_envs,))
        if self.env.time_limit is not None:
            truncated |= lengths >= self.env.time_limit
        terminated = jnp.broadcast_to(after.terminated, (self.num_envs,))
        ended = terminated | truncated
        outcome = Outcome(after.reward, terminated, truncated, next_obs, returns, lengths)
        states, obs = self._begun_again(ended, after.state, next_obs, draw.resets)
        returns, lengths = jnp.where(ended, 0.0, returns), jnp.where(ended, 0, lengths)
        return Games(states, obs, returns, lengths), outcome

    def _begun_again(
        self, ended: Traced, states: State, obs: Traced, resets: Traced
    ) -> tuple[State, Traced]:
        def mixed(begun: tuple[State, Traced]) -> tuple[State, Traced]:
            def choose(new: Traced, old: Traced) -> Traced:
                return jnp.where(ended.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

            chosen: tuple[State, Traced] = jax.tree.map(choose, begun, (states, obs))
            return chosen

        if jax.default_backend() != "cpu":
            begun_states, begun_obs = resets
            return mixed((begun_states, self._encoded(begun_obs)))
        # A processor skips the branch, and on most steps no episode begins.
        begun: tuple[State, Traced] = jax.lax.cond(
            ended.any(), lambda: mixed(self._fresh(resets)), lambda: (states, obs)
        )
        return begun

    def _fresh(self, key: Traced) -> tuple[State, Traced]:
        states, obs = jax.vmap(self.env.reset)(jax.random.split(key, self.num_envs))
        return states, self._encoded(obs)

    def _encoded(self, obs: Traced) -> Traced:
        return obs.reshape(self.num_envs, *self._flat).astype(self.single_observation_space.dtype)


def ended_episodes(outcome: Outcome) -> Ended:
    """The episodes that ended in some steps, `(steps, envs)`."""
    over = (outcome.terminated | outcome.truncated).ravel()
    # As many as a run's return is about. Backwards, so that the newest are found first; where there
    # are fewer, the rest is not used.
    found = jnp.nonzero(over[::-1], size=min(LAST_EPISODES, over.size), fill_value=0)[0]
    newest = (over.size - 1 - found)[::-1]
    return {
        "count": over.sum(keepdims=True),
        "returns": outcome.returns.ravel()[newest],
        "lengths": outcome.lengths.ravel()[newest],
    }
