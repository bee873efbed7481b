"""A training script that knows nothing of MOSAIC: builds environments and steps them.

    python trainee.py KIND STOP_FILE

It ends when the stop file appears, closing its environments, or when it is killed.
"""

import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym


def colour_env(number: int = 0, env_id: str = "ColourWorld-v0", **options: Any) -> gym.Env:
    """Build one environment of its own colour, in whatever process this is called."""
    import colour_world  # noqa: F401

    return gym.make(env_id, number=number, **options)


def four() -> list[Callable[[], gym.Env]]:
    return [functools.partial(colour_env, number) for number in range(4)]


def atari() -> Any:
    import ale_py

    gym.register_envs(ale_py)
    return gym.make_vec("ALE/Breakout-v5", 2, vectorization_mode="vector_entry_point")


BUILDERS: dict[str, Callable[[], Any]] = {
    "one": colour_env,
    "nan": lambda: colour_env(trouble="nan"),
    "render": lambda: colour_env(trouble="render"),
    "text": lambda: colour_env(env_id="TextWorld-v0"),
    "sync": lambda: gym.vector.SyncVectorEnv(four()),
    "async-fork": lambda: gym.vector.AsyncVectorEnv(four(), context="fork"),
    "async-spawn": lambda: gym.vector.AsyncVectorEnv(four(), context="spawn"),
    "cartpole": lambda: gym.make("CartPole-v1"),
    "make_vec-sync": lambda: gym.make_vec("CartPole-v1", 2, vectorization_mode="sync"),
    "make_vec-async": lambda: gym.make_vec("CartPole-v1", 2, vectorization_mode="async"),
    "make_vec-native": lambda: gym.make_vec(
        "CartPole-v1", 2, vectorization_mode="vector_entry_point"
    ),
    "make_vec-atari": atari,
}


def main() -> None:
    kind, stop = sys.argv[1], Path(sys.argv[2])
    env = BUILDERS[kind]()
    vector = isinstance(env, gym.vector.VectorEnv)
    env.reset(seed=1)
    print("stepping", flush=True)
    give_up = time.monotonic() + 60
    while not stop.exists() and time.monotonic() < give_up:
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if not vector and (terminated or truncated):
            env.reset()
    env.close()


if __name__ == "__main__":
    main()
