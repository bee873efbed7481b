"""Measures headless Q-learning: episodes a second on one core, and that nothing is learned less.

Both learners train the same number of episodes of FrozenLake-v1 (4x4, slippery) with the same
schedule, seed by seed in turn. `step by step` is plain Q-learning over the Gymnasium environment;
`headless` is the worker's fast learner over the same transition table. Every learned policy is then
played in the real environment. With `--agents` the worker itself is run instead, with its SPADE
agents and its XMPP server, in every family of environments it learns.

    python benchmarks/qlearning.py [--episodes 20000] [--seeds 8] [--games 2000]
    python benchmarks/qlearning.py --agents
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
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
WORKER = [sys.executable, "-m", "spade_bdi_rl_worker.cli"]
QUICK = ["--alpha", "0.5", "--alpha-end", "0.2"]
FAMILIES = {
    "FrozenLake-v1": ["--episodes", "5000"],
    "Taxi-v4": ["--episodes", "2500", *QUICK],
    "CliffWalking-v1": ["--episodes", "300", *QUICK],
    "MiniGrid-DoorKey-5x5-v0": ["--episodes", "300", *QUICK],
}


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


def about(flags: str) -> dict[str, Any]:
    """How and where a result came about."""
    return {
        "command": f"python benchmarks/qlearning.py {flags}",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, NumPy {np.__version__}",
        "load_average": os.getloadavg(),
    }


def write(name: str, document: dict[str, Any]) -> None:
    """Keep a result."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / name).write_text(json.dumps(document, indent=2) + "\n")


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


def agents() -> dict[str, Any]:
    """Train and evaluate the whole worker in each family; what its policies reach."""
    results: dict[str, Any] = {}
    for env_id, flags in FAMILIES.items():
        with tempfile.TemporaryDirectory() as folder:
            train = [*WORKER, "--env-id", env_id, *flags, "--run-dir", folder]
            began = time.perf_counter()
            trained = last_line(train)["summary"]
            seconds = time.perf_counter() - began
            policy = ["--mode", "policy_eval", "--policy-path", f"{folder}/checkpoints"]
            games = ["--eval-episodes", "500", "--run-dir", f"{folder}/eval"]
            graded = last_line([*WORKER, "--env-id", env_id, *policy, *games])["summary"]
        results[env_id] = {
            "command": shlex.join(["python", *train[1:-2]]),
            "seconds_with_start": round(seconds, 1),
            "steps": trained["steps"],
            "evaluation": {key: graded[key] for key in ("episodes", "mean", "std", "success_rate")},
        }
        print(env_id, results[env_id], flush=True)
    return results


def last_line(command: list[str]) -> dict[str, Any]:
    """Run the worker; the last line it says."""
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document


def main() -> None:
    """Measure both learners and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--games", type=int, default=2000)
    parser.add_argument("--agents", action="store_true", help="run the whole worker instead")
    options = parser.parse_args()
    if options.agents:
        write("qlearning_agents.json", {**about("--agents"), "families": agents()})
        return
    learners = {"headless": headless, "step by step": step_by_step}
    results: dict[str, list[dict[str, float]]] = {name: [] for name in learners}
    for seed in range(1, options.seeds + 1):
        for name, train in learners.items():
            policy, seconds = train(options.episodes, seed)
            results[name].append(
                {"seed": seed, "seconds": seconds, "win_rate": win_rate(policy, options.games)}
            )
            print(name, results[name][-1], flush=True)
    flags = f"--episodes {options.episodes} --seeds {options.seeds} --games {options.games}"
    document = {
        **about(flags),
        "env_id": ENV_ID,
        "episodes": options.episodes,
        "measured_in": "processor seconds of one thread",
        "learners": {name: summary(rows, options.episodes) for name, rows in results.items()},
        "runs": results,
    }
    write(f"qlearning_{options.episodes}.json", document)
    print(json.dumps(document["learners"], indent=2))


if __name__ == "__main__":
    main()
