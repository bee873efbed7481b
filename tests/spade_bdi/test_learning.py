"""The learners: that they learn the environment's own MDP, and resume to the last bit."""

from __future__ import annotations

import itertools
import json

import gymnasium
import numpy as np
import pytest

from spade_bdi_rl_worker.errors import WorldError
from spade_bdi_rl_worker.headless import HeadlessLearner, lanes_for
from spade_bdi_rl_worker.learner import QLearner
from spade_bdi_rl_worker.schedule import Schedule
from spade_bdi_rl_worker.tables import TransitionTable, transition_table
from spade_bdi_rl_worker.worlds import World, make_env


def table_of(env_id: str) -> TransitionTable:
    env = make_env(env_id, None, None, None)
    table = transition_table(env)
    env.close()
    assert table is not None
    return table


def win_rate(env_id: str, policy: np.ndarray, episodes: int) -> float:
    """How often a policy wins in the real environment."""
    world = World(env_id, seed=7)
    won = 0
    for episode in range(episodes):
        state = world.reset(episode)
        move = world.step(int(policy[state]))
        while not move.ended:
            move = world.step(int(policy[move.state]))
        won += world.won(move)
    world.close()
    return won / episodes


def test_headless_learning_wins_seventy_percent_of_slippery_frozen_lake() -> None:
    """20,000 fast episodes give an agent that wins 70 % in the real environment."""
    learner = HeadlessLearner(table_of("FrozenLake-v1"), Schedule(), 1, 20_000, 100)
    learner.run(20_000)
    assert win_rate("FrozenLake-v1", learner.q.argmax(axis=1), 1000) >= 0.70


def test_headless_learning_solves_taxi_and_the_cliff() -> None:
    """The same learner delivers every passenger and walks the shortest safe way."""
    taxi = HeadlessLearner(table_of("Taxi-v4"), Schedule(), 1, 20_000, 200)
    taxi.run(20_000)
    assert win_rate("Taxi-v4", taxi.q.argmax(axis=1), 100) == 1.0
    cliff = HeadlessLearner(
        table_of("CliffWalking-v1"), Schedule(), 1, 5_000, 200, every_end_wins=True
    )
    cliff.run(5_000)
    assert win_rate("CliffWalking-v1", cliff.q.argmax(axis=1), 3) == 1.0


def test_the_fast_learner_finds_the_values_of_the_environment() -> None:
    """What it learns are the action values of the same MDP, computed independently."""
    mdp = table_of("FrozenLake-v1")
    env = gymnasium.make("FrozenLake-v1")
    exact = np.zeros((16, 4))
    for _ in range(2000):
        for s, a in itertools.product(range(16), range(4)):
            exact[s, a] = sum(
                p * (r + (0.0 if end else 0.95 * exact[n].max()))
                for p, n, r, end in env.unwrapped.P[s][a]  # type: ignore[attr-defined]
            )
    env.close()
    schedule = Schedule(gamma=0.95, alpha=0.2, alpha_end=0.002, epsilon_end=0.5)
    learner = HeadlessLearner(mdp, schedule, 3, 200_000, 100)
    learner.run(200_000)
    assert np.abs(learner.q - exact).max() < 0.03


def test_many_hits_of_one_pair_move_it_as_far_as_single_updates() -> None:
    """A batch of n equal targets is exactly n single updates."""
    learner = HeadlessLearner(table_of("FrozenLake-v1"), Schedule(), 1, 100, 100, lanes=8)
    learner._update(np.full(8, 5), np.full(8, 1.0), 0.1)
    single = 0.0
    for _ in range(8):
        single += 0.1 * (1.0 - single)
    assert learner.q.reshape(-1)[5] == pytest.approx(single, abs=1e-15)


def test_a_resumed_headless_run_equals_the_uninterrupted_one() -> None:
    """Stopped, written as JSON, read and continued: the same table to the last bit."""
    mdp = table_of("FrozenLake-v1")
    whole = HeadlessLearner(mdp, Schedule(), 5, 8000, 100)
    whole.run(8000)
    first = HeadlessLearner(mdp, Schedule(), 5, 8000, 100)
    first.run(4000)
    second = HeadlessLearner(mdp, Schedule(), 99, 8000, 100)
    second.restore(json.loads(json.dumps(first.state())))
    second.run(8000)
    assert second.state() == whole.state()


def test_a_resumed_learner_repeats_no_random_number() -> None:
    """The step-by-step learner's state is complete."""
    learner = QLearner(4, Schedule(), 1, 100)
    for state in range(5):
        learner.meet(state)
        learner.learn(state, learner.explore(), 1.0, state, False)
    learner.finish_episode(1.0, True)
    copy = QLearner(4, Schedule(), 2, 100)
    copy.restore(json.loads(json.dumps(learner.state())))
    assert [copy.random() for _ in range(5)] == [learner.random() for _ in range(5)]
    assert copy.state() == learner.state()


def test_the_known_plan_is_the_policy_of_the_best_time() -> None:
    """Retreat follows what worked best, not what is believed now."""
    learner = QLearner(2, Schedule(), 1, 1000)
    learner.meet(0)
    learner.table[0] = [0.0, 1.0]
    for _ in range(60):
        learner.finish_episode(1.0, True)
    learner.table[0] = [5.0, 1.0]
    for _ in range(60):
        learner.finish_episode(0.0, False)
    assert learner.exploit(0) == 0
    assert learner.retreat(0) == 1


def test_fewer_episodes_take_fewer_lanes() -> None:
    """A short run keeps learning from each episode; a long one goes wide."""
    assert lanes_for(10) == 1
    assert lanes_for(800) == 10
    assert lanes_for(1_000_000) == 256


def test_minigrid_places_are_numbered_as_they_are_met() -> None:
    """MiniGrid gets one state a place, direction and load, the same in every episode."""
    world = World("MiniGrid-Empty-5x5-v0", seed=1)
    start = world.reset(0)
    turned = world.step(0).state
    assert world.step(1).state == start
    assert world.reset(1) == start
    assert turned != start
    assert world.observation == {"position": [1, 1], "direction": 0, "carrying": ""}
    world.close()


@pytest.mark.parametrize(
    ("env_id", "says"),
    [
        ("FrozenLake-v2", "did you mean 'FrozenLake-v1'"),
        ("CartPole-v1", "no states to number"),
        ("MiniGrid-Nowhere-v0", "there is no environment"),
    ],
)
def test_an_environment_that_cannot_be_learned_is_refused(env_id: str, says: str) -> None:
    """One sentence before anything starts, with what would work."""
    with pytest.raises(WorldError, match=says):
        World(env_id, seed=1)
