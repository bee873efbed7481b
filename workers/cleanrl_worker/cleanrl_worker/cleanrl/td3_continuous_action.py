"""Twin Delayed DDPG, TD3 (Fujimoto et al., 2018).

DDPG with three remedies against overestimated values: the smaller of two critics is
believed, the actor learns less often than the critics, and noise on the target action
smooths what the critics learn from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from cleanrl_worker.kit.acceleration import accelerated
from cleanrl_worker.kit.actions import action_scale
from cleanrl_worker.kit.args import TorchArgs
from cleanrl_worker.kit.envs import Envs
from cleanrl_worker.kit.fused import SideBySide
from cleanrl_worker.kit.inference import Forward, Policy, noisy_policy, numpy_forward
from cleanrl_worker.kit.optim import Adam
from cleanrl_worker.kit.replay import ReplayBuffer
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.targets import follow

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

Pair = tuple[Tensor, Tensor]


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


class Critics(nn.Module):
    """Two independent values of an action in a state."""

    def __init__(self, envs: Envs) -> None:
        super().__init__()
        inputs = math.prod(envs.single_observation_space.shape)
        inputs += math.prod(envs.single_action_space.shape)
        self.qf1, self.qf2 = q_network(inputs), q_network(inputs)
        self._first, self._both = SideBySide(self.qf1), SideBySide(self.qf1, self.qf2)

    def forward(self, obs: Tensor, actions: Tensor) -> Pair:
        qf1_values, qf2_values = self._both(torch.cat([obs, actions], dim=1))
        return qf1_values.squeeze(1), qf2_values.squeeze(1)

    def fit(self, obs: Tensor, actions: Tensor, target: Tensor) -> tuple[Pair, Pair]:
        """The values, and their mean squared errors, whose gradients the critics get."""
        return self._both.fit(torch.cat([obs, actions], dim=1), target)

    def first(self, obs: Tensor, actions: Tensor) -> Tensor:
        """The first critic's value; gradients reach the actions, not the critic."""
        (qf1_values,) = self._first(torch.cat([obs, actions], dim=1), learn=False)
        return qf1_values.squeeze(1)


def q_network(inputs: int) -> nn.Sequential:
    """From a state and an action to a value."""
    return nn.Sequential(
        nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)
    )


class Actor(nn.Module):
    """The action to take in a state."""

    def __init__(self, envs: Envs) -> None:
        super().__init__()
        inputs = math.prod(envs.single_observation_space.shape)
        outputs = math.prod(envs.single_action_space.shape)
        self.network = nn.Sequential(
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
        self._fused = SideBySide(self.network)

    def forward(self, obs: Tensor) -> Tensor:
        (squashed,) = self._fused(obs)
        return squashed * self.scale + self.centre

    def act(self) -> Forward:
        """The same for arrays, quickly."""
        network = numpy_forward(self.network)
        scale, centre = self.scale.cpu().numpy(), self.centre.cpu().numpy()
        return lambda obs: network(obs) * scale + centre


def make_policy(envs: Envs, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    actor = Actor(envs)
    actor.load_state_dict(model["actor"])
    return noisy_policy(actor.act(), args.exploration_noise * actor.scale.numpy())


def train(args: Args, run: Run) -> None:
    envs = run.make_envs(args.num_envs)
    actor, target_actor = Actor(envs).to(run.device), Actor(envs).to(run.device)
    critics, target_critics = Critics(envs).to(run.device), Critics(envs).to(run.device)
    actor_optimizer = Adam(actor.parameters(), args.learning_rate)
    q_optimizer = Adam(critics.parameters(), args.learning_rate)
    update_targets = [follow(target_actor, actor), follow(target_critics, critics)]
    memory = ReplayBuffer(args.buffer_size, envs, run.device)
    act, noise = actor.act(), args.exploration_noise * actor.scale.cpu().numpy()

    lowest, highest = actor.centre - actor.scale, actor.centre + actor.scale

    def update_critics(
        obs: Tensor, actions: Tensor, next_obs: Tensor, rewards: Tensor, dones: Tensor
    ) -> tuple[Tensor, ...]:
        # Aim at the smaller value of a smoothed target action
        with torch.no_grad():
            next_actions = target_actor(next_obs)
            smoothing = torch.randn_like(next_actions) * args.policy_noise
            smoothing = smoothing.clamp(-args.noise_clip, args.noise_clip) * actor.scale
            next_actions = (next_actions + smoothing).clamp(lowest, highest)
            next_value = torch.min(*target_critics(next_obs, next_actions))
            target = rewards + (1 - dones) * args.gamma * next_value
        q_optimizer.zero_grad()
        (qf1_values, qf2_values), (qf1_loss, qf2_loss) = critics.fit(obs, actions, target)
        q_optimizer.step()
        return qf1_values, qf2_values, qf1_loss, qf2_loss

    def update_actor(obs: Tensor) -> Tensor:
        # Uphill in the first critic's value, and the targets follow
        actor_loss = -critics.first(obs, actor(obs)).mean()
        actor_optimizer.zero_grad()
        actor_loss.backward()
        actor_optimizer.step()
        for update_target in update_targets:
            update_target(args.tau)
        return actor_loss.detach()

    update_critics = accelerated(update_critics, args, run.device)
    update_actor = accelerated(update_actor, args, run.device)

    envs.reset(seed=args.seed)
    run.remember(
        {"actor": actor},
        target_actor=target_actor,
        critics=critics,
        target_critics=target_critics,
        actor_optimizer=actor_optimizer,
        q_optimizer=q_optimizer,
        memory=memory,
        envs=envs,
    )
    obs = envs.obs
    low, high = envs.single_action_space.low, envs.single_action_space.high
    actor_loss = torch.zeros(())
    for global_step in run.steps(args.num_envs):
        # Act, with noise to explore
        if global_step < args.learning_starts:
            actions = envs.sample_actions(run.rng)
        else:
            actions = act(obs)
            actions += noise * run.rng.standard_normal(actions.shape, np.float32)
            actions = actions.clip(low, high)
        next_obs, rewards, terminated, _, info = envs.step(actions)
        if info:
            run.log_episodes(global_step, info)

        # The state that followed, not the one a new episode began with
        memory.add(obs, info.get("final_obs", next_obs), actions, rewards, terminated)
        obs = next_obs

        if global_step < args.learning_starts:
            continue
        data = memory.sample(args.batch_size, run.rng)
        qf1_values, qf2_values, qf1_loss, qf2_loss = update_critics(*data)
        if global_step % args.policy_frequency < args.num_envs:
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
