"""Soft Actor-Critic (Haarnoja et al., 2018) with a learned temperature.

Maximise the return plus the entropy of the policy. Two critics learn the soft value of
actions, the smaller one is believed; the actor is a Gaussian squashed by tanh; the
temperature alpha weighs entropy against reward and is tuned to a target entropy.
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
from cleanrl_worker.kit.inference import Policy, numpy_forward
from cleanrl_worker.kit.optim import Adam
from cleanrl_worker.kit.replay import ReplayBuffer
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.sampling import Random
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.targets import follow

ALGORITHM = {
    "title": "Soft Actor-Critic",
    "paper": "Haarnoja et al. 2018, https://arxiv.org/abs/1812.05905",
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
LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0

Pair = tuple[Tensor, Tensor]


@dataclass
class Args(TorchArgs):
    exp_name: str = "sac_continuous_action"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "Hopper-v5"
    """the id of the environment"""
    total_timesteps: int = 1000000
    """total timesteps of the experiment [>=1]"""
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
    learning_starts: int = 5000
    """the step at which learning starts; actions are random before [>=0]"""
    policy_lr: float = 3e-4
    """the learning rate of the actor [>0]"""
    q_lr: float = 1e-3
    """the learning rate of the critics and of the temperature [>0]"""
    policy_frequency: int = 2
    """steps between two turns of the actor, which then takes that many updates [>=1]"""
    target_network_frequency: int = 1
    """steps between two updates of the target networks [>=1]"""
    alpha: float = 0.2
    """the temperature when it is not tuned [>=0]"""
    autotune: bool = True
    """if toggled, the temperature is tuned to a target entropy"""


class SoftCritics(nn.Module):
    """Two independent soft values of an action in a state."""

    def __init__(self, envs: Envs) -> None:
        super().__init__()
        inputs = math.prod(envs.single_observation_space.shape)
        inputs += math.prod(envs.single_action_space.shape)
        self.qf1, self.qf2 = q_network(inputs), q_network(inputs)
        self._both = SideBySide(self.qf1, self.qf2)

    def forward(self, obs: Tensor, actions: Tensor) -> Pair:
        """The values; gradients reach the actions, not the critics."""
        qf1_values, qf2_values = self._both(torch.cat([obs, actions], dim=1), learn=False)
        return qf1_values.squeeze(1), qf2_values.squeeze(1)

    def fit(self, obs: Tensor, actions: Tensor, target: Tensor) -> tuple[Pair, Pair]:
        """The values, and their mean squared errors, whose gradients the critics get."""
        return self._both.fit(torch.cat([obs, actions], dim=1), target)


def q_network(inputs: int) -> nn.Sequential:
    """From a state and an action to a value."""
    return nn.Sequential(
        nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)
    )


class Actor(nn.Module):
    """A Gaussian over actions, squashed into the action range by tanh."""

    def __init__(self, envs: Envs) -> None:
        super().__init__()
        inputs = math.prod(envs.single_observation_space.shape)
        outputs = math.prod(envs.single_action_space.shape)
        self.network = nn.Sequential(
            nn.Linear(inputs, 256),
            nn.ReLU(),
            nn.Linear(256, 256),
            nn.ReLU(),
            nn.Linear(256, 2 * outputs),
        )
        scale, centre = action_scale(envs)
        self.register_buffer("scale", torch.from_numpy(scale))
        self.register_buffer("centre", torch.from_numpy(centre))
        self._fused = SideBySide(self.network)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """A sampled action and its log-probability."""
        (output,) = self._fused(obs)
        mean, log_std = output.chunk(2, dim=1)
        log_std = LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (log_std.tanh() + 1)
        noise = torch.randn_like(mean)
        squashed = (mean + log_std.exp() * noise).tanh()
        log_prob = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
        # The change of variables: how much tanh and the scale compress the action
        log_prob = log_prob - (self.scale * (1 - squashed.square()) + 1e-6).log()
        return squashed * self.scale + self.centre, log_prob.sum(dim=1)

    def act(self) -> Policy:
        """The same for arrays, quickly: a sample, or the centre of the Gaussian."""
        network = numpy_forward(self.network)
        scale, centre = self.scale.cpu().numpy(), self.centre.cpu().numpy()

        def policy(obs: np.ndarray, rng: Random, deterministic: bool) -> np.ndarray:
            mean, log_std = np.split(network(obs), 2, axis=1)
            if not deterministic:
                log_std = LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (np.tanh(log_std) + 1)
                mean = mean + np.exp(log_std) * rng.standard_normal(mean.shape, np.float32)
            return np.tanh(mean) * scale + centre

        return policy


class Temperature(nn.Module):
    """The weight of the entropy, kept positive by learning its logarithm."""

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.log_alpha = nn.Parameter(torch.tensor([math.log(alpha)]))


def make_policy(envs: Envs, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    actor = Actor(envs)
    actor.load_state_dict(model["actor"])
    return actor.act()


def train(args: Args, run: Run) -> None:
    envs = run.make_envs(args.num_envs)
    actor = Actor(envs).to(run.device)
    critics, target_critics = SoftCritics(envs).to(run.device), SoftCritics(envs).to(run.device)
    actor_optimizer = Adam(actor.parameters(), args.policy_lr)
    q_optimizer = Adam(critics.parameters(), args.q_lr)
    update_targets = follow(target_critics, critics)

    # Tune alpha so that the policy's entropy is that of one nat per action dimension
    target_entropy = -float(math.prod(envs.single_action_space.shape))
    temperature = Temperature(1.0 if args.autotune else args.alpha).to(run.device)
    alpha_optimizer = Adam(temperature.parameters(), args.q_lr)

    memory = ReplayBuffer(args.buffer_size, envs, run.device)
    act = actor.act()

    def update_critics(
        obs: Tensor, actions: Tensor, next_obs: Tensor, rewards: Tensor, dones: Tensor
    ) -> tuple[Tensor, ...]:
        # Aim at the reward plus the soft value of the next state
        with torch.no_grad():
            next_actions, next_log_pi = actor(next_obs)
            next_value = torch.min(*target_critics(next_obs, next_actions))
            next_value = next_value - temperature.log_alpha.exp() * next_log_pi
            target = rewards + (1 - dones) * args.gamma * next_value
        q_optimizer.zero_grad()
        (qf1_values, qf2_values), (qf1_loss, qf2_loss) = critics.fit(obs, actions, target)
        q_optimizer.step()
        return qf1_values, qf2_values, qf1_loss, qf2_loss

    def update_actor(obs: Tensor) -> tuple[Tensor, Tensor]:
        # Towards actions of a high soft value: a high value and a high entropy
        alpha = temperature.log_alpha.detach().exp()
        pi, log_pi = actor(obs)
        min_qf = torch.min(*critics(obs, pi))
        actor_loss = (alpha * log_pi - min_qf).mean()
        actor_optimizer.zero_grad()
        actor_loss.backward()
        actor_optimizer.step()

        # The temperature rises while the entropy of these actions is below its target
        alpha_loss = torch.zeros_like(actor_loss)
        if args.autotune:
            entropy_gap = (log_pi.detach() + target_entropy).mean()
            alpha_loss = -(temperature.log_alpha.exp() * entropy_gap).mean()
            alpha_optimizer.zero_grad()
            alpha_loss.backward()
            alpha_optimizer.step()
        return actor_loss.detach(), alpha_loss.detach()

    update_critics = accelerated(update_critics, args, run.device)
    update_actor = accelerated(update_actor, args, run.device)

    envs.reset(seed=args.seed)
    run.remember(
        {"actor": actor},
        critics=critics,
        target_critics=target_critics,
        temperature=temperature,
        actor_optimizer=actor_optimizer,
        q_optimizer=q_optimizer,
        alpha_optimizer=alpha_optimizer,
        memory=memory,
        envs=envs,
    )
    obs = envs.obs
    actor_loss, alpha_loss = torch.zeros(()), torch.zeros(())
    for global_step in run.steps(args.num_envs):
        # Act
        if global_step < args.learning_starts:
            actions = envs.sample_actions(run.rng)
        else:
            actions = act(obs, run.rng, deterministic=False)
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
        # The actor learns less often, but as many times in total
        if global_step % args.policy_frequency < args.num_envs:
            for _ in range(args.policy_frequency):
                actor_loss, alpha_loss = update_actor(data.obs)
        if global_step % args.target_network_frequency < args.num_envs:
            update_targets(args.tau)

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
                    "losses/alpha": temperature.log_alpha.exp().item(),
                    "losses/alpha_loss": alpha_loss.item(),
                },
            )
    envs.close()


if __name__ == "__main__":
    main(Args, train)
