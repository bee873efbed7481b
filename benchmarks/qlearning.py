"""Measures headless Q-learning: episodes a second on one core, and that nothing is learned less.

Both learners train the same number of episodes of FrozenLake-v1 (4x4, slippery) with the same
schedule, seed by seed in turn. `step by step` is plain Q-learning over the Gymnasium environment;
`headless` is the worker's fast learner over the same transition table. Every learned policy is then
played in the real environment.

    python benchmarks/qlearning.py [--episodes 20000] [--seeds 8] [--games 2000]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

from spade_bdi_rl_worker.headless import HeadlessLearner
from spade_bdi_rl_worker.learner import QLearner
from spade_bdi_rl_worker.schedule import Schedule
from spade_bdi_rl_worker.tables import transition_table
from spade_bdi_rl_worker.worlds import World, episode_limit, make_env

RESULTS = Path(__file__).parent / "results"
ENV_ID = "FrozenLake-v1"


def headless(episodes: int, seed: int) -> tuple[list[int], float]:
    """Train the fast learner; its policy and the processor seconds it took."""
    env = make_env(ENV_ID, None, None, None)
    table = transition_table(env)
    assert table is not None
    began = time.process_time()
    learner = HeadlessLearner(table, Schedule(), seed, episodes, episode_limit(env))
    learner.run(episodes)
    seconds = time.process_time() - began
    env.close()
    return learner.q.argmax(axis=1).tolist(), seconds


def step_by_step(episodes: int, seed: int) -> tuple[list[int], float]:
    """Train plain Q-learning over the environment; its policy and the processor seconds."""
    world = World(ENV_ID, seed)
    learner = QLearner(world.actions, Schedule(), seed, episodes)
    began = time.process_time()
    for episode in range(episodes):
        state = world.reset(episode)
        learner.meet(state)
        total, ended = 0.0, False
        while not ended:
            explore = learner.random() < learner.epsilon
            move = world.step(learner.explore() if explore else learner.exploit(state))
            learner.meet(move.state)
            learner.learn(state, move.action, move.reward, move.state, move.terminated)
            total += move.reward
            state, ended = move.state, move.ended
        learner.finish_episode(total, world.won(move))
    seconds = time.process_time() - began
    world.close()
    return learner.greedy_policy(), seconds


def win_rate(policy: list[int], games: int) -> float:
    """The share of games a policy wins in the real environment."""
    world = World(ENV_ID, seed=12345)
    won = 0
    for game in range(games):
        move = world.step(policy[world.reset(game)])
        while not move.ended:
            move = world.step(policy[move.state])
        won += world.won(move)
    world.close()
    return won / games


def summary(results: list[dict[str, float]], episodes: int) -> dict[str, Any]:
    """Speed and learning of one learner over all seeds."""
    rates = [r["win_rate"] for r in results]
    return {
        "episodes_per_s_best": round(episodes / min(r["seconds"] for r in results)),
        "episodes_per_s_median": round(episodes / statistics.median(r["seconds"] for r in results)),
        "win_rate_mean": round(float(np.mean(rates)), 4),
        "win_rate_std": round(float(np.std(rates)), 4),
        "win_rate_min": round(min(rates), 4),
    }


def main() -> None:
    """Measure both learners and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--games", type=int, default=2000)
    options = parser.parse_args()
    learners = {"headless": headless, "step by step": step_by_step}
    results: dict[str, list[dict[str, float]]] = {name: [] for name in learners}
    for seed in range(1, options.seeds + 1):
        for name, train in learners.items():
            policy, seconds = train(options.episodes, seed)
            results[name].append(
                {"seed": seed, "seconds": seconds, "win_rate": win_rate(policy, options.games)}
            )
            print(name, results[name][-1], flush=True)
    document = {
        "command": f"python benchmarks/qlearning.py --episodes {options.episodes} "
        f"--seeds {options.seeds} --games {options.games}",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, NumPy {np.__version__}",
        "load_average": os.getloadavg(),
        "env_id": ENV_ID,
        "episodes": options.episodes,
        "measured_in": "processor seconds of one thread",
        "learners": {name: summary(rows, options.episodes) for name, rows in results.items()},
        "runs": results,
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    name = f"qlearning_{options.episodes}.json"
    (RESULTS / name).write_text(json.dumps(document, indent=2) + "\n")
    print(json.dumps(document["learners"], indent=2))


if __name__ == "__main__":
    main()
