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
