"""Times environments alone: `python -m benchmarks.speed.floor library|kit ENV STEPS NUM_ENVS`.

Prints environment steps per second of random actions, by the wall clock and by the processor's:
of Gymnasium's environments as their library gives them (`library`), or of the same ones as our
scripts step them (`kit`). No learner is quicker than the environments it learns in.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import gymnasium as gym
import numpy as np

from cleanrl_worker.kit.envs import Envs
from cleanrl_worker.kit.families import register_family


def main() -> None:
    """Step with random actions and print how many steps a second that makes."""
    which, env_id, steps, num_envs = sys.argv[1:]
    step, num_actions = {"library": _library, "kit": _kit}[which](env_id, int(num_envs))
    turns = int(steps) // int(num_envs)
    actions = np.random.default_rng(1).integers(num_actions, size=(turns, int(num_envs)))
    wall, cpu = time.perf_counter(), time.process_time()
    for row in actions:
        step(row)
    by_wall, by_cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(actions.size / by_wall, actions.size / by_cpu)


def _library(env_id: str, num_envs: int) -> tuple[Callable[[np.ndarray], None], int]:
    register_family(env_id)
    envs = [gym.make(env_id, disable_env_checker=True) for _ in range(num_envs)]
    for index, env in enumerate(envs):
        env.reset(seed=1 + index)

    def step(actions: np.ndarray) -> None:
        for env, action in zip(envs, actions.tolist(), strict=True):
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    return step, int(envs[0].action_space.n)


def _kit(env_id: str, num_envs: int) -> tuple[Callable[[np.ndarray], object], int]:
    envs = Envs(env_id, num_envs)
    envs.reset(seed=1)
    return envs.step, int(envs.single_action_space.n)


if __name__ == "__main__":
    main()
