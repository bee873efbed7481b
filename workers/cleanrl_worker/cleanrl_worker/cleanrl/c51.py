"""Categorical DQN, C51 (Bellemare et al., 2017), for flat observations.

Learn the whole distribution of the return of each action, as probabilities over fixed
atoms. The Bellman update moves the atoms; the result is projected back onto the fixed ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cleanrl_worker.kit.acceleration import accelerator
from cleanrl_worker.kit.args import TorchArgs
from cleanrl_worker.kit.inference import Policy, expected, greedy_policy, numpy_forward
from cleanrl_worker.kit.optim import Adam
from cleanrl_worker.kit.replay import ReplayBuffer
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.schedules import linear_schedule
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.types import Batch
from cleanrl_worker.kit.weights import load_weights

ALGORITHM = {
    "title": "Categorical DQN (C51)",
    "paper": "Bellemare et al. 2017, https://arxiv.org/abs/1707.06887",
    "family": "distributional",
    "actions": ["discrete"],
    "observations": ["vector"],
    "default_env": "CartPole-v1",
    "requires": ["base"],
}
SMOKE = {"total_timesteps": 2000, "learning_starts": 500, "buffer_size": 2000}


@dataclass
class Args(TorchArgs):
    exp_name: str = "c51"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "CartPole-v1"
    """the id of the environment"""
    total_timesteps: int = 500000
    """total timesteps of the experiment [>=1]"""
    learning_rate: float = 2.5e-4
    """the learning rate of the optimizer [>0]"""
    num_envs: int = 1
    """the number of parallel environments [>=1]"""
    n_atoms: int = 101
    """the number of atoms of the return distribution [>=2]"""
    v_min: float = -100.0
    """the smallest return the atoms cover [<v_max]"""
    v_max: float = 100.0
    """the largest return the atoms cover"""
    buffer_size: int = 10000
    """the number of transitions in the replay memory [>=1]"""
    gamma: float = 0.99
    """the discount factor [0,1]"""
    tau: float = 1.0
    """how far the target network moves at an update; 1 copies (0,1]"""
    target_network_frequency: int = 500
    """steps between two updates of the target network [>=1]"""
    batch_size: int = 128
    """the number of transitions in an update [>=1]"""
    start_e: float = 1.0
    """the probability of a random action at the start [0,1]"""
    end_e: float = 0.05
    """the probability of a random action at the end [0,1]"""
    exploration_fraction: float = 0.5
    """the share of total-timesteps in which exploration falls from start-e to end-e (0,1]"""
    learning_starts: int = 10000
    """the step at which learning starts [>=0]"""
    train_frequency: int = 10
    """steps between two updates [>=1]"""


class QNetwork(nn.Module):
    """From an observation to what each action is worth."""

    def __init__(self, envs: Batch, args: Args) -> None:
        super().__init__()
        self.register_buffer("atoms", torch.linspace(args.v_min, args.v_max, args.n_atoms))
        self.network = nn.Sequential(
            nn.Linear(math.prod(envs.single_observation_space.shape), 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, int(envs.single_action_space.n) * args.n_atoms),
        )

    def forward(self, obs: Tensor) -> Tensor:
        return self.network(obs).view(len(obs), -1, len(self.atoms))  # logits of the atoms


def make_policy(envs: Batch, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    q_network = QNetwork(envs, args)
    load_weights(q_network, model["q_network"])
    # When its actions are sampled, it explores as much as training did at the end
    return greedy_policy(expected(numpy_forward(q_network.network), q_network.atoms), args.end_e)


def train(args: Args, run: Run) -> None:
    envs = run.make_envs(args.num_envs)
    q_network = QNetwork(envs, args).to(run.device)
    optimizer = Adam(q_network.parameters(), args.learning_rate, eps=0.01 / args.batch_size)
    # Targets come from a copy that lags behind, so that learning does not chase its own estimates
    target_network = QNetwork(envs, args).to(run.device).requires_grad_(False)
    target_network.load_state_dict(q_network.state_dict())
    # Steps in a row are much alike; batches are drawn from a memory that mixes many of them
    memory = ReplayBuffer(args.buffer_size, envs, run.device)
    accelerate = accelerator(args, run.device)
    atoms, each = q_network.atoms, torch.arange(args.batch_size, device=run.device)
    q_values = expected(numpy_forward(q_network.network, accelerate), atoms)

    envs.reset(seed=args.seed)
    # What a checkpoint holds: with it a stopped run goes on as if nothing had happened
    run.remember(
        {"q_network": q_network},
        target_network=target_network,
        optimizer=optimizer,
        memory=memory,
        envs=envs,
    )
    obs = envs.obs
    # Each turn takes num_envs steps; the loop also ends when the run is told to stop
    for global_step in run.steps(args.num_envs):
        # Act: at random with probability epsilon, else greedily
        epsilon = linear_schedule(
            args.start_e, args.end_e, args.exploration_fraction * args.total_timesteps, global_step
        )
        if run.rng.random() < epsilon:
            actions = envs.sample_actions(run.rng)
        else:
            actions = q_values(obs).argmax(axis=1)
        next_obs, rewards, terminated, _, info = envs.step(actions)
        if info:
            run.log_episodes(global_step, info)

        # Remember the state that followed, not the one a new episode began with.
        # Only `terminated` ends the future: an episode that ran out of time could have gone on
        memory.add(obs, info.get("final_obs", next_obs), actions, rewards, terminated)
        obs = next_obs
        # Nothing is learned before there is enough to learn from
        if global_step < args.learning_starts or not memory.ready:
            continue

        # Learn, every so many steps; one turn of this loop takes num_envs of them
        if global_step % args.train_frequency < args.num_envs:

            @accelerate  # speed: --compile and --cudagraphs take this function as one piece
            def update(
                obs: Tensor, actions: Tensor, next_obs: Tensor, rewards: Tensor, dones: Tensor
            ) -> tuple[Tensor, Tensor]:
                """Move Z(s, a) towards r + gamma Z'(s', a'), where a' has the best mean."""
                with torch.no_grad():
                    pmfs = target_network(next_obs).softmax(dim=2)
                    pmfs = pmfs[each, (pmfs @ atoms).argmax(dim=1)]
                    # Each atom moves, and the fixed ones on both sides share its probability
                    moved = rewards.unsqueeze(1) + args.gamma * atoms * (1 - dones).unsqueeze(1)
                    place = (moved.clamp(atoms[0], atoms[-1]) - atoms[0]) / atoms.diff().mean()
                    lower = place.long().clamp(max=args.n_atoms - 2)
                    to_upper = (place - lower) * pmfs
                    target_pmfs = torch.zeros_like(pmfs).scatter_add_(1, lower, pmfs - to_upper)
                    target_pmfs.scatter_add_(1, lower + 1, to_upper)
                log_pmfs = q_network(obs)[each, actions.squeeze(1)].log_softmax(dim=1)
                loss = -(target_pmfs * log_pmfs).sum(dim=1).mean()
                old_value = log_pmfs.exp() @ atoms

                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                return loss.detach(), old_value.detach().mean()

            loss, old_value = update(*memory.sample(args.batch_size, run.rng))
            if global_step % 100 < args.num_envs:
                run.log(
                    global_step,
                    {
                        "losses/loss": loss.item(),
                        "losses/q_values": old_value.item(),
                    },
                )

        # The target network follows: target <- tau * network + (1 - tau) * target
        if global_step % args.target_network_frequency < args.num_envs:
            with torch.no_grad():
                for target, source in zip(
                    target_network.parameters(), q_network.parameters(), strict=True
                ):
                    target.lerp_(source, args.tau)
    envs.close()


if __name__ == "__main__":
    main(Args, train)
