"""The transition table of a toy-text environment as arrays, ready for many episodes at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

# A Gymnasium environment whose class may publish its table, which Gymnasium's own type does not.
Env: TypeAlias = Any


@dataclass(frozen=True)
class TransitionTable:
    """A finite MDP; outcome k of action a in state s is at (s * actions + a) * width + k."""

    states: int
    actions: int
    width: int
    bounds: NDArray[np.float64]
    following: NDArray[np.int64]
    reward: NDArray[np.float64]
    ended: NDArray[np.bool_]
    start_bounds: NDArray[np.float64]

    def outcome(self, pair: NDArray[np.int64], chance: NDArray[np.float64]) -> NDArray[np.int64]:
        """The index of what happens to each state-action pair, given uniform random numbers."""
        if self.width == 1:
            return pair
        drawn: NDArray[np.int64] = (chance[:, None] >= self.bounds[pair]).sum(axis=1)
        return pair * self.width + drawn

    def start(self, chance: NDArray[np.float64]) -> NDArray[np.int64]:
        """A start state for each random number."""
        drawn: NDArray[np.int64] = np.searchsorted(self.start_bounds, chance, side="right")
        return drawn


def transition_table(env: Env) -> TransitionTable | None:
    """The table of an environment that publishes `P`; `None` for one that does not."""
    raw = getattr(env.unwrapped, "P", None)
    if raw is None:
        return None
    states, actions = len(raw), len(raw[0])
    outcomes = [raw[s][a] for s in range(states) for a in range(actions)]
    width = max(len(entries) for entries in outcomes)
    following = np.zeros((len(outcomes), width), np.int64)
    reward = np.zeros((len(outcomes), width))
    ended = np.zeros((len(outcomes), width), bool)
    bounds = np.ones((len(outcomes), width))
    for index, entries in enumerate(outcomes):
        total = 0.0
        for k, (probability, state, gain, end) in enumerate(entries):
            total += probability
            bounds[index, k] = total
            following[index, k], reward[index, k], ended[index, k] = state, gain, end
        # Rounding must not leave a sliver of chance for an outcome that does not exist.
        bounds[index, len(entries) - 1 :] = np.inf
    return TransitionTable(
        states=states,
        actions=actions,
        width=width,
        bounds=bounds[:, :-1].copy(),
        following=following.ravel(),
        reward=reward.ravel(),
        ended=ended.ravel(),
        start_bounds=_start_bounds(env, states),
    )


def _start_bounds(env: Env, states: int) -> NDArray[np.float64]:
    chances = np.asarray(env.unwrapped.initial_state_distrib, np.float64)
    bounds = np.cumsum(chances / chances.sum())
    bounds[np.flatnonzero(chances)[-1] :] = 2.0
    return bounds[:states]
