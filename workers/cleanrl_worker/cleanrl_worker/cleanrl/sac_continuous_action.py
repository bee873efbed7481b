"""Soft Actor-Critic (Haarnoja et al., 2018) with a learned temperature.

Maximise the return plus the entropy of the policy. Two critics learn the soft value of
actions, the smaller one is believed; the actor is a Gaussian squashed by tanh; the
temperature alpha weighs entropy against reward and is tuned to a target entropy.
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
from cleanrl_worker.kit.inference import Policy, judged_policy
from cleanrl_worker.kit.optim import Adam
from cleanrl_worker.kit.replay import ReplayBuffer
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.sampling import Random
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.types import Batch
from cleanrl_worker.kit.weights import load_weights, trained_critics

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
    """updates of the critics between two turns of the actor, which then takes as many [>=1]"""
    target_network_frequency: int = 1
    """updates of the critics for one of the target networks [>=1]"""
    alpha: float = 0.2
    """the temperature when it is not tuned [>0]"""
    autotune: bool = True
    """if toggled, the temperature is tuned to a target entropy"""


class SoftQNetwork(nn.Module):
    """The soft value of an action in a state."""

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
    """A Gaussian over actions, squashed into the action range by tanh."""

    def __init__(self, envs: Batch) -> None:
        super().__init__()
        inputs = math.prod(envs.single_observation_space.shape)
        outputs = math.prod(envs.single_action_space.shape)
        self.network = Sequential(
            nn.Linear(inputs, 256),
            nn.ReLU(),
            nn.Linear(256, 256),
            nn.ReLU(),
            nn.Linear(256, 2 * outputs),
        )
        scale, centre = action_scale(envs)
        self.register_buffer("scale", torch.from_numpy(scale))
        self.register_buffer("centre", torch.from_numpy(centre))

    def forward(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """The action that standard normal noise leads to, and its log-probability."""
        mean, log_std = self.network(obs).chunk(2, dim=1)
        log_std = LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (log_std.tanh() + 1)
        squashed = (mean + log_std.exp() * noise).tanh()
        log_prob = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
        # The change of variables: how much tanh and the scale compress the action
        log_prob = log_prob - (self.scale * (1 - squashed.square()) + 1e-6).log()
        return squashed * self.scale + self.centre, log_prob.sum(dim=1)


@torch.no_grad()
def act(actor: Actor, obs: np.ndarray, rng: Random, deterministic: bool = False) -> np.ndarray:
    """Actions for arrays of observations: samples, or the middle of each distribution."""
    shape = (len(obs), len(actor.scale))
    noise = np.zeros(shape, np.float32) if deterministic else rng.standard_normal(shape, np.float32)
    device = actor.scale.device
    actions, _ = actor(torch.from_numpy(obs).to(device), torch.from_numpy(noise).to(device))
    return actions.cpu().numpy()


@torch.no_grad()
def smaller_value(critics: list[SoftQNetwork], obs: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """min_i Q_i(s, a) for arrays of observations and actions."""
    rows = torch.from_numpy(obs), torch.from_numpy(actions)
    return torch.stack([critic(*rows) for critic in critics]).amin(dim=0).numpy()


def make_policy(envs: Batch, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    actor = Actor(envs)
    load_weights(actor, model["actor"])
    critics = trained_critics(lambda: SoftQNetwork(envs), model)
    judge = None if critics is None else partial(smaller_value, critics)
    return judged_policy(partial(act, actor), judge)


def train(args: Args, run: Run) -> None:
    envs = run.make_envs(args.num_envs)
    actor = Actor(envs).to(run.device)
    qf1, qf2 = SoftQNetwork(envs).to(run.device), SoftQNetwork(envs).to(run.device)
    qf1_target, qf2_target = SoftQNetwork(envs).to(run.device), SoftQNetwork(envs).to(run.device)
    actor_optimizer = Adam(actor.parameters(), args.policy_lr)
    q_optimizer = Adam([*qf1.parameters(), *qf2.parameters()], args.q_lr)
    qf1_target.requires_grad_(False).load_state_dict(qf1.state_dict())
    qf2_target.requires_grad_(False).load_state_dict(qf2.state_dict())
    target_parameters = [*qf1_target.parameters(), *qf2_target.parameters()]

    # Tune alpha so that the policy keeps an entropy of minus one nat for each action dimension
    target_entropy = -float(math.prod(envs.single_action_space.shape))
    first_alpha = 1.0 if args.autotune else args.alpha
    temperature = nn.ParameterDict({"log_alpha": torch.tensor([math.log(first_alpha)])})
    log_alpha = temperature.to(run.device)["log_alpha"]
    alpha_optimizer = Adam([log_alpha], args.q_lr)

    memory = ReplayBuffer(args.buffer_size, envs, run.device)
    accelerate = accelerator(args, run.device)

    envs.reset(seed=args.seed)
    # What a checkpoint holds: with it a stopped run goes on as if nothing had happened
    run.remember(
        {"actor": actor},
        judges={"qf1": qf1, "qf2": qf2},
        qf1_target=qf1_target,
        qf2_target=qf2_target,
        temperature=temperature,
        actor_optimizer=actor_optimizer,
        q_optimizer=q_optimizer,
        alpha_optimizer=alpha_optimizer,
        memory=memory,
        envs=envs,
    )
    obs = envs.obs
    actor_loss, alpha_loss = torch.zeros(()), torch.zeros(())
    # Each turn takes num_envs steps; the loop also ends when the run is told to stop
    for global_step in run.steps(args.num_envs):
        # Act: at random at first, then as the policy samples
        if global_step < args.learning_starts:
            actions = envs.sample_actions(run.rng)
        else:
            actions = act(actor, obs, run.rng)
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
        def update_critics(
            obs: Tensor, actions: Tensor, next_obs: Tensor, rewards: Tensor, dones: Tensor
        ) -> tuple[Tensor, ...]:
            """Move Q(s, a) towards r + gamma (min_i Q'_i(s', a') - alpha log pi(a'|s'))."""
            with torch.no_grad():
                next_actions, next_log_pi = actor(next_obs, torch.randn_like(actions))
                next_qf1 = qf1_target(next_obs, next_actions)
                next_qf2 = qf2_target(next_obs, next_actions)
                next_value = torch.min(next_qf1, next_qf2) - log_alpha.exp() * next_log_pi
                target = rewards + (1 - dones) * args.gamma * next_value
            qf1_values, qf2_values = qf1(obs, actions), qf2(obs, actions)
            qf1_loss = nn.functional.mse_loss(qf1_values, target)
            qf2_loss = nn.functional.mse_loss(qf2_values, target)

            q_optimizer.zero_grad()
            (qf1_loss + qf2_loss).backward()
            q_optimizer.step()
            losses = qf1_loss.detach(), qf2_loss.detach()
            return qf1_values.detach(), qf2_values.detach(), *losses

        @accelerate
        def update_actor(obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
            """Towards actions of a high soft value: a high value and a high entropy."""
            pi, log_pi = actor(obs, torch.randn_like(actions))
            min_qf = torch.min(qf1(obs, pi), qf2(obs, pi))
            actor_loss = (log_alpha.detach().exp() * log_pi - min_qf).mean()

            actor_optimizer.zero_grad()
            # The critics judge, and do not learn from this
            actor_loss.backward(inputs=actor_optimizer.parameters)
            actor_optimizer.step()

            # The temperature rises while the entropy of these actions is below its target
            alpha_loss = (-log_alpha.exp() * (log_pi.detach() + target_entropy)).mean()
            if args.autotune:
                alpha_optimizer.zero_grad()
                alpha_loss.backward()
                alpha_optimizer.step()
            return actor_loss.detach(), alpha_loss.detach()

        # Learn; turns of this loop count, whatever the number of environments
        turn = global_step // args.num_envs
        data = memory.sample(args.batch_size, run.rng)
        qf1_values, qf2_values, qf1_loss, qf2_loss = update_critics(*data)
        if turn % args.policy_frequency == 0:
            # The actor learns less often, but as many times in total
            for _ in range(args.policy_frequency):
                actor_loss, alpha_loss = update_actor(data.obs, data.actions)

        # The target networks follow: target <- tau * network + (1 - tau) * target
        if turn % args.target_network_frequency == 0:
            with torch.no_grad():
                torch._foreach_lerp_(target_parameters, q_optimizer.parameters, args.tau)

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
                    "losses/alpha": log_alpha.exp().item(),
                    "losses/alpha_loss": alpha_loss.item(),
                },
            )
    envs.close()


if __name__ == "__main__":
    main(Args, train)
