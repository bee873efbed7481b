"""EnvPool's environments stepped from inside compiled JAX functions.

EnvPool resets an environment in the step after its episode ended: that step's action is
ignored and its reward is 0. Here this is not undone, because a compiled rollout cannot stop
for it: `Outcome.valid` is false for such a step, and learning leaves it out. In return the
observation after an ended episode is its true last one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from cleanrl_worker.kit.envpool import EnvPoolEnvs
from cleanrl_worker.kit.jax_backend import jax, jnp
from cleanrl_worker.kit.types import StateDict, StepInfo

# An array of JAX, or what stands for one while a function is traced.
Traced: TypeAlias = jax.Array


class Games(NamedTuple):
    """Where the environments are, as a value that compiled functions pass on."""

    handle: Traced
    obs: Traced
    ended: Traced
    """whether the last step ended an episode, so that the next one only resets"""
    returns: Traced
    lengths: Traced


class Outcome(NamedTuple):
    """What one step of every environment gave."""

    rewards: Traced
    terminated: Traced
    truncated: Traced
    valid: Traced
    """false where the step was only a reset"""
    over: Traced
    """whether a whole game ended, with its score and length in the next two"""
    returns: Traced
    lengths: Traced


Step = Callable[[Games, Traced], tuple[Games, Outcome]]


class XlaEnvs(EnvPoolEnvs):
    """A batch of one of EnvPool's Atari games for compiled functions.

    `games` is where they are; assign to it after every rollout.
    """

    games: Games

    def reset(self, seed: int) -> np.ndarray:
        """Start new episodes: environment `i` is seeded with `seed + i`."""
        obs = super().reset(seed)
        self._place(
            np.zeros(self.num_envs, np.bool_),
            np.zeros(self.num_envs, np.float32),
            np.zeros(self.num_envs, np.int32),
        )
        return obs

    def xla_step(self) -> Step:
        """The function that steps every environment, to be called in compiled code."""
        _, _, _, raw_step = self.pool.xla()

        def step(games: Games, actions: Traced) -> tuple[Games, Outcome]:
            handle, result = raw_step(games.handle, actions.astype(jnp.int32))
            obs, rewards, terminated, truncated, about = result
            returns = games.returns + about["reward"]
            lengths = games.lengths + ~games.ended
            over = (terminated & (about["terminated"] > 0)) | truncated
            outcome = Outcome(rewards, terminated, truncated, ~games.ended, over, returns, lengths)
            ended = terminated | truncated
            returns, lengths = jnp.where(over, 0, returns), jnp.where(over, 0, lengths)
            return Games(handle, obs, ended, returns, lengths), outcome

        return step

    def note(self, obs: Traced, actions: Traced, outcome: Outcome) -> StepInfo:
        """Note what happened in a rollout, `(steps, envs, ...)`.

        Returns:
            `info` for logging: the games that ended, as `episodes`.
        """
        rows = np.asarray(actions, np.int64)
        for row in rows:
            self._note(row)
        over = np.asarray(outcome.over)
        if self._film is not None or self._tap is not None:
            self._show(np.asarray(obs), np.asarray(outcome.rewards), over)
        returns, lengths = np.asarray(outcome.returns), np.asarray(outcome.lengths)
        where = np.nonzero(over)
        episodes = list(zip(returns[where].tolist(), lengths[where].tolist(), strict=True))
        self._recent.extend(episodes)
        return {"episodes": episodes}

    def state_dict(self) -> StateDict:
        """The seed, the actions while there are few, and the running games' scores."""
        self.obs = np.array(self.games.obs)
        return {
            **super().state_dict(),
            "ended": np.array(self.games.ended),
            "returns": np.array(self.games.returns),
            "lengths": np.array(self.games.lengths),
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Repeat the actions; where that cannot be, `notes` says that new episodes begin."""
        super().load_state_dict(state)
        if not self.notes:
            self._place(*(state[name].numpy() for name in ("ended", "returns", "lengths")))

    def _repeat(self, actions: np.ndarray) -> None:
        self.obs, *_ = self.pool.step(actions)
        self._note(actions)

    def _place(self, ended: np.ndarray, returns: np.ndarray, lengths: np.ndarray) -> None:
        handle, *_ = self.pool.xla()
        self.games = Games(
            handle,
            *(jax.device_put(np.array(part)) for part in (self.obs, ended, returns, lengths)),
        )

    def _show(self, obs: np.ndarray, rewards: np.ndarray, over: np.ndarray) -> None:
        for frames, reward, ends in zip(obs, rewards, over, strict=True):
            self.obs = frames
            if self._film is not None:
                self._film.frame(self.render()[0])
                if ends[0]:
                    self._film.episode_ended()
            if self._tap is not None:
                self._tap.step(reward)
