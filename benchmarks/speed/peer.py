"""Times stable-baselines3: ``python -m benchmarks.speed.peer CLASS ENV STEPS NUM_ENVS OPTIONS``.

Prints environment steps per second of ``learn``, by the wall clock and by the processor's,
imports and construction left out.
"""

from __future__ import annotations

import json
import sys
import time

import stable_baselines3
import torch
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize


def main() -> None:
    """Build the peer's model and time its learning."""
    name, env_id, steps, num_envs, options = sys.argv[1:]
    torch.set_num_threads(1)
    kind = getattr(stable_baselines3, name)
    envs = make_vec_env(env_id, int(num_envs), seed=1)
    if name == "PPO" and env_id.startswith("HalfCheetah"):
        envs = VecNormalize(envs)
    model = kind("MlpPolicy", envs, device="cpu", seed=1, **json.loads(options))
    wall, cpu = time.perf_counter(), time.process_time()
    model.learn(int(steps))
    by_wall, by_cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(model.num_timesteps / by_wall, model.num_timesteps / by_cpu)


if __name__ == "__main__":
    main()
