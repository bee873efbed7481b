"""Deep Q-Network (Mnih et al., 2015) for Atari games.

Learn the value of each action by moving it towards the reward plus the discounted value of
the best next action, as a slow copy of the network (the target network) estimates it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cleanrl_worker.agents.pixels import ScaledPixels
from cleanrl_worker.kit.acceleration import accelerator
from cleanrl_worker.kit.args import TorchArgs
from cleanrl_worker.kit.atari import AtariEnvs
from cleanrl_worker.kit.frame_replay import FrameReplayBuffer
from cleanrl_worker.kit.inference import Policy, greedy_policy, numpy_forward
from cleanrl_worker.kit.optim import Adam
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.schedules import linear_schedule
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.types import Batch
from cleanrl_worker.kit.weights import load_weights

ALGORITHM = {
    "title": "Deep Q-Network, Atari",
    "paper": "Mnih et al. 2015, https://doi.org/10.1038/nature14236",
    "family": "Q-learning",
    "actions": ["discrete"],
    "observations": ["image"],
    "default_env": "BreakoutNoFrameskip-v4",
    "requires": ["base", "atari"],
}
SMOKE = {"total_timesteps": 320, "learning_starts": 100, "buffer_size": 400, "batch_size": 8}


@dataclass
class Args(TorchArgs):
    exp_name: str = "dqn_atari"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "BreakoutNoFrameskip-v4"
    """the id of the environment"""
    total_timesteps: int = 10000000
    """total timesteps of the experiment [>=1]"""
    learning_rate: float = 1e-4
    """the learning rate of the optimizer [>0]"""
    num_envs: int = 1
    """the number of parallel environments [>=1]"""
    buffer_size: int = 1000000
    """the number of transitions in the replay memory [>=1]"""
    gamma: float = 0.99
    """the discount factor [0,1]"""
    tau: float = 1.0
    """how far the target network moves at an update; 1 copies (0,1]"""
    target_network_frequency: int = 1000
    """steps between two updates of the target network [>=1]"""
    batch_size: int = 32
    """the number of transitions in an update [>=1]"""
    start_e: float = 1.0
    """the probability of a random action at the start [0,1]"""
    end_e: float = 0.01
    """the probability of a random action at the end [0,1]"""
    exploration_fraction: float = 0.1
    """the share of total-timesteps in which exploration falls from start-e to end-e (0,1]"""
    learning_starts: int = 80000
    """the step at which learning starts [>=0]"""
    train_frequency: int = 4
    """steps between two updates [>=1]"""


class QNetwork(nn.Module):
    """From an observation to what each action is worth."""

    def __init__(self, envs: Batch) -> None:
        super().__init__()
        self.network = nn.Sequential(
            ScaledPixels(),
            nn.Conv2d(envs.single_observation_space.shape[0], 32, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, stride=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * 7 * 7, 512),
            nn.ReLU(),
            nn.Linear(512, int(envs.single_action_space.n)),
        ).to(memory_format=torch.channels_last)  # speed: how convolutions like their weights

    def forward(self, obs: Tensor) -> Tensor:
        return self.network(obs)


def make_eval_envs(args: Args, num_envs: int, video_dir: str | None) -> AtariEnvs:
    """Whole games with their true score."""
    return AtariEnvs(args.env_id, num_envs, learning=False, video_dir=video_dir)


def make_policy(envs: Batch, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    q_network = QNetwork(envs)
    load_weights(q_network, model["q_network"])
    # When its actions are sampled, it explores as much as training did at the end
    return greedy_policy(numpy_forward(q_network.network), epsilon=args.end_e)


def train(args: Args, run: Run) -> None:
    envs = AtariEnvs(args.env_id, args.num_envs, video_dir=run.video_dir)
    run.check_spaces(envs)
    q_network = QNetwork(envs).to(run.device)
    optimizer = Adam(q_network.parameters(), args.learning_rate)
    # Targets come from a copy that lags behind, so that learning does not chase its own estimates
    target_network = QNetwork(envs).to(run.device).requires_grad_(False)
    target_network.load_state_dict(q_network.state_dict())
    # Steps in a row are much alike; batches are drawn from a memory that mixes many of them
    memory = FrameReplayBuffer(args.buffer_size, envs, run.device)
    accelerate = accelerator(args, run.device)
    q_values = numpy_forward(q_network.network, accelerate)  # speed: from arrays to arrays

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

        # Remember the frames; where a game ended, info has the last one.
        # Only `terminated` ends the future: an episode that ran out of time could have gone on
        memory.add(obs, actions, rewards, terminated, info)
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
                """Move Q(s, a) towards r + gamma max_a' Q'(s', a'); nothing follows an end."""
                with torch.no_grad():
                    target_max = target_network(next_obs).amax(dim=1)
                    td_target = rewards + args.gamma * target_max * (1 - dones)
                old_value = q_network(obs).gather(1, actions).squeeze(1)
                loss = nn.functional.mse_loss(old_value, td_target)

                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                return loss.detach(), old_value.detach().mean()

            loss, old_value = update(*memory.sample(args.batch_size, run.rng))
            if global_step % 100 < args.num_envs:
                run.log(
                    global_step,
                    {
                        "losses/td_loss": loss.item(),
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
