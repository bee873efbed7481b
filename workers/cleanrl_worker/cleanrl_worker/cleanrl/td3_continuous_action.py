"""Twin Delayed DDPG, TD3 (Fujimoto et al., 2018).

DDPG with three remedies against overestimated values: the smaller of two critics is
believed, the actor learns less often than the critics, and noise on the target action
smooths what the critics learn from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from cleanrl_worker.kit.acceleration import accelerator
from cleanrl_worker.kit.actions import action_scale
from cleanrl_worker.kit.args import TorchArgs
from cleanrl_worker.kit.fused import Sequential
from cleanrl_worker.kit.inference import Policy, judged_policy, noisy_policy, numpy_forward
from cleanrl_worker.kit.judging import torch_judge
from cleanrl_worker.kit.optim import Adam
from cleanrl_worker.kit.replay import ReplayBuffer
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.types import Batch
from cleanrl_worker.kit.weights import load_weights

ALGORITHM = {
    "title": "Twin Delayed Deep Deterministic Policy Gradient (TD3)",
    "paper": "Fujimoto et al. 2018, https://arxiv.org/abs/1802.09477",
    "family": "continuous",
    "actions": ["continuous"],
    "observations": ["vector"],
    "default_env": "Hopper-v5",
    "requires": ["base"],
}
SMOKE = {
    "env_id": "Pendulum-v1",
    "total_timesteps": 600,
    "learning_starts": 300,
    "buffer_size": 1000,
}


@dataclass
class Args(TorchArgs):
    exp_name: str = "td3_continuous_action"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "Hopper-v5"
    """the id of the environment"""
    total_timesteps: int = 1000000
    """total timesteps of the experiment [>=1]"""
    learning_rate: float = 3e-4
    """the learning rate of the optimizers [>0]"""
    num_envs: int = 1
    """the number of parallel environments [>=1]"""
    buffer_size: int = 1000000
    """the number of transitions in the replay memory [>=1]"""
    gamma: float = 0.99
    """the discount factor [0,1]"""
    tau: float = 0.005
    """how far the target networks move at an update (0,1]"""
    batch_size: int = 256
    """the number of transitions in an update [>=1]"""
    policy_noise: float = 0.2
    """the standard deviation of the noise on the target action [>=0]"""
    exploration_noise: float = 0.1
    """the standard deviation of the exploration noise, in units of the action range [>=0]"""
    learning_starts: int = 25000
    """the step at which learning starts; actions are random before [>=0]"""
    policy_frequency: int = 2
    """updates of the critics for one of the actor [>=1]"""
    noise_clip: float = 0.5
    """the largest noise on the target action [>=0]"""


class QNetwork(nn.Module):
    """The value of an action in a state."""

    def __init__(self, envs: Batch) -> None:
        super().__init__()
        inputs = math.prod(envs.single_observation_space.shape)
        inputs += math.prod(envs.single_action_space.shape)
        # speed: `Sequential` is `nn.Sequential`, quicker
        self.network = Sequential(
            nn.Linear(inputs, 256),
            nn.ReLU(),
            nn.Linear(256, 256),
            nn.ReLU(),
            nn.Linear(256, 1),
        )

    def forward(self, obs: Tensor, actions: Tensor) -> Tensor:
        return self.network(torch.cat([obs, actions], dim=1)).squeeze(1)


class Actor(nn.Module):
    """The action to take in a state."""

    def __init__(self, envs: Batch) -> None:
        super().__init__()
        inputs = math.prod(envs.single_observation_space.shape)
        outputs = math.prod(envs.single_action_space.shape)
        self.network = Sequential(
            nn.Linear(inputs, 256),
            nn.ReLU(),
            nn.Linear(256, 256),
            nn.ReLU(),
            nn.Linear(256, outputs),
            nn.Tanh(),
        )
        scale, centre = action_scale(envs)
        self.register_buffer("scale", torch.from_numpy(scale))
        self.register_buffer("centre", torch.from_numpy(centre))

    def forward(self, obs: Tensor) -> Tensor:
        return self.network(obs) * self.scale + self.centre


def make_policy(envs: Batch, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    actor = Actor(envs)
    load_weights(actor, model["actor"])
    noisy = noisy_policy(numpy_forward(actor), args.exploration_noise * actor.scale.numpy())
    make = partial(QNetwork, envs)
    return judged_policy(noisy, torch_judge(make, model, envs.single_action_space))


def train(args: Args, run: Run) -> None:
    envs = run.make_envs(args.num_envs)
    actor, target_actor = Actor(envs).to(run.device), Actor(envs).to(run.device)
    qf1, qf1_target = QNetwork(envs).to(run.device), QNetwork(envs).to(run.device)
    qf2, qf2_target = QNetwork(envs).to(run.device), QNetwork(envs).to(run.device)
    actor_optimizer = Adam(actor.parameters(), args.learning_rate)
    q_optimizer = Adam([*qf1.parameters(), *qf2.parameters()], args.learning_rate)
    parameters, target_parameters = [], []
    for source, target in ((actor, target_actor), (qf1, qf1_target), (qf2, qf2_target)):
        target.requires_grad_(False).load_state_dict(source.state_dict())
        parameters += source.parameters()
        target_parameters += target.parameters()
    memory = ReplayBuffer(args.buffer_size, envs, run.device)
    act = numpy_forward(actor)
    noise_std = args.exploration_noise * actor.scale.cpu().numpy()
    low, high = envs.single_action_space.low, envs.single_action_space.high
    lowest, highest = actor.centre - actor.scale, actor.centre + actor.scale
    accelerate = accelerator(args, run.device)

    envs.reset(seed=args.seed)
    # What a checkpoint holds: with it a stopped run goes on as if nothing had happened
    run.remember(
        {"actor": actor},
        judges={"qf1": qf1, "qf2": qf2},
        target_actor=target_actor,
        qf1_target=qf1_target,
        qf2_target=qf2_target,
        actor_optimizer=actor_optimizer,
        q_optimizer=q_optimizer,
        memory=memory,
        envs=envs,
    )
    obs = envs.obs
    actor_loss = torch.zeros(())
    # Each turn takes num_envs steps; the loop also ends when the run is told to stop
    for global_step in run.steps(args.num_envs):
        # Act: at random at first, then with noise to explore
        if global_step < args.learning_starts:
            actions = envs.sample_actions(run.rng)
        else:
            actions = act(obs)
            actions = actions + noise_std * run.rng.standard_normal(actions.shape, np.float32)
            actions = actions.clip(low, high)
        next_obs, rewards, terminated, _, info = envs.step(actions)
        if info:
            run.log_episodes(global_step, info)

        # Remember the state that followed, not the one a new episode began with.
        # Only `terminated` ends the future: an episode that ran out of time could have gone on
        memory.add(obs, info.get("final_obs", next_obs), actions, rewards, terminated)
        obs = next_obs
        if global_step < args.learning_starts:
            continue

        @accelerate  # speed: --compile and --cudagraphs take this function as one piece
        def update_critic(
            obs: Tensor, actions: Tensor, next_obs: Tensor, rewards: Tensor, dones: Tensor
        ) -> tuple[Tensor, ...]:
            """Move Q_i(s, a) towards r + gamma min_i Q'_i(s', a'), where a' = pi'(s') + noise."""
            with torch.no_grad():
                noise = torch.randn_like(actions) * args.policy_noise
                noise = noise.clamp(-args.noise_clip, args.noise_clip) * actor.scale
                next_actions = (target_actor(next_obs) + noise).clamp(lowest, highest)
                next_qf1 = qf1_target(next_obs, next_actions)
                next_qf2 = qf2_target(next_obs, next_actions)
                target = rewards + (1 - dones) * args.gamma * torch.min(next_qf1, next_qf2)
            qf1_values, qf2_values = qf1(obs, actions), qf2(obs, actions)
            qf1_loss = nn.functional.mse_loss(qf1_values, target)
            qf2_loss = nn.functional.mse_loss(qf2_values, target)

            q_optimizer.zero_grad()
            (qf1_loss + qf2_loss).backward()
            q_optimizer.step()
            losses = qf1_loss.detach(), qf2_loss.detach()
            return qf1_values.detach(), qf2_values.detach(), *losses

        @accelerate
        def update_actor(obs: Tensor) -> Tensor:
            """Uphill in the value of the actor's own actions, and the targets follow."""
            actor_loss = -qf1(obs, actor(obs)).mean()
            actor_optimizer.zero_grad()
            # The critic judges, and does not learn from this
            actor_loss.backward(inputs=actor_optimizer.parameters)
            actor_optimizer.step()

            # target <- tau * network + (1 - tau) * target
            with torch.no_grad():
                torch._foreach_lerp_(target_parameters, parameters, args.tau)
            return actor_loss.detach()

        # Learn: the actor less often; turns of this loop count, not steps of the environments
        data = memory.sample(args.batch_size, run.rng)
        qf1_values, qf2_values, qf1_loss, qf2_loss = update_critic(*data)
        if (global_step // args.num_envs) % args.policy_frequency == 0:
            actor_loss = update_actor(data.obs)

        if global_step % 100 < args.num_envs:
            run.log(
                global_step,
                {
                    "losses/qf1_values": qf1_values.mean().item(),
                    "losses/qf2_values": qf2_values.mean().item(),
                    "losses/qf1_loss": qf1_loss.item(),
                    "losses/qf2_loss": qf2_loss.item(),
                    "losses/qf_loss": (qf1_loss.item() + qf2_loss.item()) / 2,
                    "losses/actor_loss": actor_loss.item(),
                },
            )
    envs.close()


if __name__ == "__main__":
    main(Args, train)
