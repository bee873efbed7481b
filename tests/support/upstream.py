"""Scripts in the style of upstream CleanRL, written outside the project for the tests."""

from __future__ import annotations

from pathlib import Path

SCRIPT = '''# docs and experiment results can be found elsewhere
import os
import time
from dataclasses import dataclass

import gymnasium as gym
import torch
import tyro
from torch.utils.tensorboard import SummaryWriter


@dataclass
class Args:
    exp_name: str = os.path.basename(__file__)[: -len(".py")]
    """the name of this experiment"""
    seed: int = 1
    """seed of the experiment"""
    cuda: bool = True
    """if toggled, cuda will be enabled by default"""
    track: bool = False
    """if toggled, this experiment will be tracked"""
    wandb_project_name: str = "cleanRL"
    """the wandb's project name"""
    env_id: str = "CartPole-v1"
    """the id of the environment"""
    total_timesteps: int = 500000
    """total timesteps of the experiments"""
    num_envs: int = 4
    """the number of parallel game environments"""


def make_env(env_id):
    def thunk():
        env = gym.make(env_id)
        return gym.wrappers.RecordEpisodeStatistics(env)

    return thunk


if __name__ == "__main__":
    args = tyro.cli(Args)
    run_name = f"{args.env_id}__{args.exp_name}__{args.seed}__{int(time.time())}"
    if args.track:
        import wandb

        wandb.init(project=args.wandb_project_name, sync_tensorboard=True, name=run_name)
    writer = SummaryWriter(f"runs/{run_name}")
    envs = gym.vector.SyncVectorEnv([make_env(args.env_id) for _ in range(args.num_envs)])
    policy = torch.nn.Linear(envs.single_observation_space.shape[0], envs.single_action_space.n)
    obs, _ = envs.reset(seed=args.seed)
    start_time = time.time()
    global_step = 0
    while global_step < args.total_timesteps:
        global_step += args.num_envs
        with torch.no_grad():
            logits = policy(torch.as_tensor(obs))
        action = torch.distributions.Categorical(logits=logits).sample()
        obs, reward, terminations, truncations, infos = envs.step(action.numpy())
        if "episode" in infos:
            for ended, value in zip(infos["_episode"], infos["episode"]["r"]):
                if ended:
                    writer.add_scalar("charts/episodic_return", value, global_step)
            writer.add_scalar("losses/entropy", logits.std().item(), global_step)
            sps = int(global_step / (time.time() - start_time))
            writer.add_scalar("charts/SPS", sps, global_step)
    torch.save(policy.state_dict(), f"runs/{run_name}/{args.exp_name}.cleanrl_model")
    envs.close()
    writer.close()
'''


def write_script(home: Path, name: str, body: str = SCRIPT) -> Path:
    """Write a script where a checkout of upstream has its own; the checkout's folder."""
    folder = home / "cleanrl"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(body)
    return home


# As upstream wrote scripts for Gymnasium 0.28: a parser, and episodes told in `final_info`.
OLDER_SCRIPT = """import argparse
import os

import gymnasium as gym
import numpy as np
from torch.utils.tensorboard import SummaryWriter


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1, help="seed")
    parser.add_argument("--cuda", type=lambda x: x == "True", default=True, nargs="?", const=True)
    parser.add_argument("--env-id", type=str, default="CartPole-v1", help="environment")
    parser.add_argument("--total-timesteps", type=int, default=1000, help="steps")
    parser.add_argument("--num-envs", type=int, default=2, help="environments")
    parser.add_argument("--fail", type=lambda x: x == "True", default=False, nargs="?", const=True)
    return parser.parse_args()


def make_env(env_id):
    env = gym.make(env_id)
    env = gym.wrappers.RecordEpisodeStatistics(env)
    return gym.wrappers.TransformObservation(env, lambda obs: np.clip(obs, -10, 10))


if __name__ == "__main__":
    args = parse_args()
    assert not args.cuda
    if args.fail:
        raise RuntimeError("the lights went out")
    writer = SummaryWriter("runs/older")
    envs = gym.vector.SyncVectorEnv([lambda: make_env(args.env_id)] * args.num_envs)
    obs, _ = envs.reset(seed=args.seed)
    for step in range(0, args.total_timesteps, args.num_envs):
        obs, rewards, ends, cuts, infos = envs.step(envs.action_space.sample())
        if "final_info" in infos:
            for index, info in enumerate(infos["final_info"]):
                if info and "episode" in info:
                    assert infos["final_observation"][index].shape == obs[index].shape
                    writer.add_scalar("charts/episodic_return", info["episode"]["r"], step)
    writer.close()
"""


# As upstream wrote scripts for `gym` 0.23: four values a step, a list of infos, `env.seed`.
OLDEST_SCRIPT = """import argparse

import gym
import numpy as np
from gym.wrappers.normalize import RunningMeanStd
from torch.utils.tensorboard import SummaryWriter


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1, help="seed")
    parser.add_argument("--cuda", type=lambda x: x == "True", default=True, nargs="?", const=True)
    parser.add_argument("--env-id", type=str, default="CartPole-v1", help="environment")
    parser.add_argument("--total-timesteps", type=int, default=1000, help="steps")
    parser.add_argument("--num-envs", type=int, default=2, help="environments")
    return parser.parse_args()


def make_env(env_id, seed):
    env = gym.make(env_id)
    env = gym.wrappers.RecordEpisodeStatistics(env)
    env.seed(seed)
    return env


if __name__ == "__main__":
    args = parse_args()
    assert gym.__version__ < "0.26"
    writer = SummaryWriter("runs/oldest")
    envs = gym.vector.SyncVectorEnv([lambda: make_env(args.env_id, args.seed)] * args.num_envs)
    assert isinstance(envs.single_action_space, gym.spaces.Discrete)
    obs = envs.reset()
    assert (obs[0] == obs[1]).all(), "the same seed begins the same"
    statistics = RunningMeanStd(shape=(4,))
    for step in range(0, args.total_timesteps, args.num_envs):
        obs, rewards, dones, infos = envs.step(envs.action_space.sample())
        statistics.update(obs)
        for done, info in zip(dones, infos):
            assert done == ("terminal_observation" in info)
            if "episode" in info.keys():
                assert info["terminal_observation"].shape == (4,)
                writer.add_scalar("charts/episodic_return", info["episode"]["r"], step)
    writer.close()
"""
