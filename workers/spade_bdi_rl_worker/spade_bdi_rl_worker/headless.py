"""Q-learning over many episodes at once: the same MDP, the same update, no agent around it.

Each of `lanes` episodes takes one step per round. All pairs (s, a) hit in a round are updated from
the table as it stood before the round. A pair hit n times moves as far as n single updates towards
the mean of its targets would move it: Q += (1 - (1 - alpha)^n) * (mean target - Q).
"""

from __future__ import annotations

from collections import deque
from typing import NotRequired, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from mosaic.curves.names import LAST_EPISODES
from spade_bdi_rl_worker.checkpoints import LearnerState
from spade_bdi_rl_worker.schedule import Schedule
from spade_bdi_rl_worker.tables import TransitionTable

MAX_LANES = 256
# Below this many episodes a lane, learning per episode begins to suffer (see benchmarks/results).
EPISODES_PER_LANE = 80


def lanes_for(episodes: int) -> int:
    """How many episodes to run side by side without learning less from each."""
    return int(np.clip(episodes // EPISODES_PER_LANE, 1, MAX_LANES))


class Lanes(TypedDict):
    """The episodes under way: state, age and return so far of each."""

    state: list[int]
    age: list[int]
    gain: list[float]


class HeadlessState(LearnerState):
    """Everything a `HeadlessLearner` needs to continue."""

    wins: int
    return_sum: float
    returns: NotRequired[list[float]]
    lengths: NotRequired[list[int]]
    lanes: Lanes


class HeadlessLearner:
    """A vectorised Q-learner with its whole state in one document."""

    def __init__(
        self,
        table: TransitionTable,
        schedule: Schedule,
        seed: int,
        episodes: int,
        max_steps: int,
        lanes: int | None = None,
        every_end_wins: bool = False,
    ) -> None:
        self.mdp = table
        self.schedule = schedule
        self.planned_episodes = max(1, episodes)
        self.max_steps = max_steps
        self.lanes = lanes or lanes_for(episodes)
        self._every_end_wins = every_end_wins
        self.q = np.zeros((table.states, table.actions))
        self.episode = 0
        self.steps = 0
        self.wins = 0
        self.return_sum = 0.0
        self.returns: deque[float] = deque(maxlen=LAST_EPISODES)
        self.lengths: deque[int] = deque(maxlen=LAST_EPISODES)
        self._random = np.random.default_rng(seed)
        self._state = table.start(self._random.random(self.lanes))
        self._age = np.zeros(self.lanes, np.int64)
        self._gain = np.zeros(self.lanes)

    def run(self, until_episode: int) -> None:
        """Learn until at least that many episodes are finished."""
        while self.episode < until_episode:
            self._round()

    def _round(self) -> None:
        mdp, q = self.mdp, self.q
        done = self.episode / self.planned_episodes
        # Three numbers a lane in every round, used or not: the stream of random numbers then
        # depends on nothing but the round, and a resumed run continues it exactly.
        chance = self._random.random((3, self.lanes))
        action = np.where(
            chance[0] < self.schedule.epsilon_at(done),
            (chance[1] * mdp.actions).astype(np.int64),
            q.argmax(axis=1)[self._state],
        )
        pair = self._state * mdp.actions + action
        outcome = mdp.outcome(pair, chance[2])
        following, ended, reward = mdp.following[outcome], mdp.ended[outcome], mdp.reward[outcome]
        # Only true ends: an episode cut by its limit would have gone on, so its future counts.
        future = np.where(ended, 0.0, q.max(axis=1)[following])
        self._update(pair, reward + self.schedule.gamma * future, self.schedule.alpha_at(done))
        self._advance(following, ended, reward)

    def _update(self, pair: NDArray[np.int64], target: NDArray[np.float64], alpha: float) -> None:
        flat = self.q.reshape(-1)
        hits = np.bincount(pair, minlength=flat.size)
        sums = np.bincount(pair, weights=target, minlength=flat.size)
        hit = np.flatnonzero(hits)
        count = hits[hit]
        flat[hit] += (1 - (1 - alpha) ** count) * (sums[hit] / count - flat[hit])

    def _advance(
        self, following: NDArray[np.int64], ended: NDArray[np.bool_], reward: NDArray[np.float64]
    ) -> None:
        self.steps += self.lanes
        self._age += 1
        self._gain += reward
        over = ended | (self._age >= self.max_steps)
        self._state = following
        finished = np.flatnonzero(over)
        if finished.size:
            self.episode += finished.size
            won = ended[finished] & ((reward[finished] > 0) | self._every_end_wins)
            self.wins += int(won.sum())
            self.return_sum += float(self._gain[finished].sum())
            self.returns.extend(self._gain[finished].tolist())
            self.lengths.extend(self._age[finished].tolist())
            self._state[finished] = self.mdp.start(self._random.random(finished.size))
            self._age[finished] = 0
            self._gain[finished] = 0.0

    def state(self) -> HeadlessState:
        """Everything needed to continue exactly here."""
        return {
            "table": self.q.tolist(),
            "episode": self.episode,
            "steps": self.steps,
            "wins": self.wins,
            "return_sum": self.return_sum,
            "returns": list(self.returns),
            "lengths": list(self.lengths),
            "lanes": {
                "state": self._state.tolist(),
                "age": self._age.tolist(),
                "gain": self._gain.tolist(),
            },
            "random": cast(dict[str, object], self._random.bit_generator.state),
        }

    def restore(self, saved: HeadlessState) -> None:
        """Continue from a state that `state` gave."""
        self.q = np.array(saved["table"], np.float64)
        self.episode, self.steps = saved["episode"], saved["steps"]
        self.wins, self.return_sum = saved["wins"], saved["return_sum"]
        # Earlier releases did not keep them: the return of their runs starts again.
        self.returns = deque(saved.get("returns", ()), maxlen=LAST_EPISODES)
        self.lengths = deque(saved.get("lengths", ()), maxlen=LAST_EPISODES)
        self._state = np.array(saved["lanes"]["state"], np.int64)
        self._age = np.array(saved["lanes"]["age"], np.int64)
        self._gain = np.array(saved["lanes"]["gain"], np.float64)
        self.lanes = len(self._state)
        self._random.bit_generator.state = saved["random"]
