"""Times stable-baselines3: ``python -m benchmarks.speed.peer CLASS ENV STEPS NUM_ENVS WARM JSON``.

Prints environment steps per second of ``learn`` from step ``WARM`` on, by the wall clock and by
the processor's, imports and construction left out. ``JSON`` holds the class's options;
``action_noise`` among them is the standard deviation of Gaussian exploration.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import VecNormalize


def main() -> None:
    """Build the peer's model and time its learning."""
    name, env_id, steps, num_envs, warm, text = sys.argv[1:]
    options = json.loads(text)
    torch.set_num_threads(1)
    envs = make_vec_env(env_id, int(num_envs), seed=1)
    if name == "PPO" and env_id.startswith("HalfCheetah"):
        envs = VecNormalize(envs)
    if "action_noise" in options:
        shape = envs.action_space.shape
        sigma = np.full(shape, options["action_noise"])
        options["action_noise"] = NormalActionNoise(np.zeros(shape), sigma)
    model = getattr(stable_baselines3, name)("MlpPolicy", envs, device="cpu", seed=1, **options)
    if int(warm):
        model.learn(int(warm))
    first = model.num_timesteps
    wall, cpu = time.perf_counter(), time.process_time()
    model.learn(int(steps) - first, reset_num_timesteps=not first)
    by_wall, by_cpu = time.perf_counter() - wall, time.process_time() - cpu
    done = model.num_timesteps - first
    print(done / by_wall, done / by_cpu)


if __name__ == "__main__":
    main()
