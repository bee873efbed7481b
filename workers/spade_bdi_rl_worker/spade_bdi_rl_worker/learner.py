"""Tabular Q-learning, one step at a time, with all of its state in one document."""

from __future__ import annotations

from collections import deque
from typing import cast

import numpy as np

from mosaic.curves.names import LAST_EPISODES
from spade_bdi_rl_worker.checkpoints import LearnerState
from spade_bdi_rl_worker.schedule import Schedule

# A snapshot counts as a known plan only when enough episodes speak for it.
PLAN_EPISODES = 50


class QLearnerState(LearnerState):
    """Everything a `QLearner` needs to continue."""

    visits: list[int]
    wins: list[int]
    returns: list[float]
    best_rate: float
    known_plan: list[int]


class QLearner:
    """A Q-table, its random numbers, its statistics, and the best policy it has known.

    The table grows by a row when a new state is met, so the world need not know its size.
    """

    def __init__(self, actions: int, schedule: Schedule, seed: int, episodes: int) -> None:
        self.actions = actions
        self.schedule = schedule
        self.planned_episodes = max(1, episodes)
        self.table: list[list[float]] = []
        self.visits: list[int] = []
        self.episode = 0
        self.steps = 0
        self.wins: deque[int] = deque(maxlen=LAST_EPISODES)
        self.returns: deque[float] = deque(maxlen=LAST_EPISODES)
        self.best_rate = 0.0
        self.known_plan: list[int] = []
        self._random = np.random.default_rng(seed)

    def meet(self, state: int) -> None:
        """Make sure the table has a row for `state`, and count the visit."""
        while len(self.table) <= state:
            self.table.append([0.0] * self.actions)
            self.visits.append(0)
        self.visits[state] += 1

    @property
    def done_fraction(self) -> float:
        return self.episode / self.planned_episodes

    @property
    def epsilon(self) -> float:
        return self.schedule.epsilon_at(self.done_fraction)

    @property
    def success_rate(self) -> float:
        """The share of won episodes among the recent ones."""
        return sum(self.wins) / len(self.wins) if self.wins else 0.0

    def random(self) -> float:
        """The one source of chance: saved, so that a resumed run repeats nothing."""
        return float(self._random.random())

    def explore(self) -> int:
        """Any action."""
        return int(self._random.integers(self.actions))

    def exploit(self, state: int) -> int:
        """The best action known, ties broken by chance."""
        row = self.table[state]
        best = max(row)
        ties = [action for action, value in enumerate(row) if value == best]
        return ties[0] if len(ties) == 1 else ties[int(self._random.integers(len(ties)))]

    def retreat(self, state: int) -> int:
        """What the best policy so far would do; exploit where it knows nothing."""
        if state < len(self.known_plan):
            return self.known_plan[state]
        return self.exploit(state)

    def learn(self, state: int, action: int, reward: float, following: int, ended: bool) -> float:
        """One Q-learning update; returns the error it corrected."""
        target = reward if ended else reward + self.schedule.gamma * max(self.table[following])
        error = target - self.table[state][action]
        self.table[state][action] += self.schedule.alpha_at(self.done_fraction) * error
        self.steps += 1
        return error

    def finish_episode(self, total_reward: float, won: bool) -> None:
        """Count an episode and remember the policy when it is the best so far."""
        self.episode += 1
        self.wins.append(int(won))
        self.returns.append(total_reward)
        if len(self.wins) >= PLAN_EPISODES and self.success_rate > self.best_rate:
            self.best_rate = self.success_rate
            self.known_plan = self.greedy_policy()

    def greedy_policy(self) -> list[int]:
        """The best action of every state met so far."""
        return [row.index(max(row)) for row in self.table]

    def state(self) -> QLearnerState:
        """Everything needed to continue exactly here."""
        return {
            "table": [list(row) for row in self.table],
            "visits": list(self.visits),
            "episode": self.episode,
            "steps": self.steps,
            "wins": list(self.wins),
            "returns": list(self.returns),
            "best_rate": self.best_rate,
            "known_plan": list(self.known_plan),
            "random": cast(dict[str, object], self._random.bit_generator.state),
        }

    def restore(self, saved: QLearnerState) -> None:
        """Continue from a state that `state` gave."""
        self.table = [list(map(float, row)) for row in saved["table"]]
        self.visits = list(saved["visits"])
        self.episode = saved["episode"]
        self.steps = saved["steps"]
        self.wins = deque(saved["wins"], maxlen=LAST_EPISODES)
        self.returns = deque(saved["returns"], maxlen=LAST_EPISODES)
        self.best_rate = saved["best_rate"]
        self.known_plan = list(saved["known_plan"])
        self._random.bit_generator.state = saved["random"]
