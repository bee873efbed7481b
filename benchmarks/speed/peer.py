"""Times stable-baselines3: `python -m benchmarks.speed.peer CLASS ENV STEPS NUM_ENVS WARM JSON`.

Prints environment steps per second of `learn` from step `WARM` on, by the wall clock and by
the processor's, imports and construction left out. `JSON` holds the class's options, and what
JSON cannot say by itself: `action_noise` is the standard deviation of Gaussian exploration,
`anneal_lr` lets the learning rate fall to zero.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

import ale_py
import gymnasium as gym
import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack, VecNormalize

# A stack of pictures has so many dimensions.
_FRAMES = 3


def main() -> None:
    """Build the peer's model and time its learning."""
    name, env_id, steps, num_envs, warm, options = sys.argv[1:]
    envs = make_envs(env_id, int(num_envs), seed=1)
    model = make_model(name, envs, json.loads(options), seed=1)
    if int(warm):
        model.learn(int(warm))
    first = model.num_timesteps
    wall, cpu = time.perf_counter(), time.process_time()
    model.learn(int(steps) - first, reset_num_timesteps=not first)
    by_wall, by_cpu = time.perf_counter() - wall, time.process_time() - cpu
    done = model.num_timesteps - first
    print(done / by_wall, done / by_cpu)


def make_envs(env_id: str, num_envs: int, seed: int) -> VecEnv:
    """The peer's own environments."""
    if "NoFrameskip" in env_id:
        gym.register_envs(ale_py)
        return VecFrameStack(make_atari_env(env_id, num_envs, seed=seed), 4)
    return make_vec_env(env_id, num_envs, seed=seed)


def make_model(
    name: str, envs: VecEnv, options: Mapping[str, Any], seed: int, device: str = "cpu"
) -> BaseAlgorithm:
    """The peer's algorithm on one thread, with the options of a case."""
    torch.set_num_threads(1)
    on_frames = len(envs.observation_space.shape) == _FRAMES
    if name == "PPO" and isinstance(envs.action_space, gym.spaces.Box):
        # As our file does where actions are continuous.
        envs = VecNormalize(envs)
    options = dict(options)
    if "action_noise" in options:
        shape = envs.action_space.shape
        sigma = np.full(shape, options["action_noise"])
        options["action_noise"] = NormalActionNoise(np.zeros(shape), sigma)
    if options.pop("anneal_lr", False):
        rate = options["learning_rate"]
        options["learning_rate"] = lambda remaining: rate * remaining
    kind = getattr(stable_baselines3, name)
    policy = "CnnPolicy" if on_frames else "MlpPolicy"
    return kind(policy, envs, device=device, seed=seed, **options)


if __name__ == "__main__":
    main()
