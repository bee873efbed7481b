"""Robust Policy Optimization (Rahman and Xue, 2022) for continuous actions.

PPO with one change: during updates the mean of the Gaussian policy is shifted by uniform
noise in (-alpha, alpha). The policy keeps its entropy and goes on exploring.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from cleanrl_worker.kit.acceleration import accelerator
from cleanrl_worker.kit.args import TorchArgs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.fused import Sequential
from cleanrl_worker.kit.inference import Policy, gaussian_policy, prepared
from cleanrl_worker.kit.normalize import NormalizeObservation, NormalizeReward
from cleanrl_worker.kit.optim import Adam
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.types import Batch

ALGORITHM = {
    "title": "Robust Policy Optimization",
    "paper": "Rahman and Xue 2022, https://arxiv.org/abs/2212.07536",
    "family": "variants",
    "actions": ["continuous"],
    "observations": ["vector"],
    "default_env": "HalfCheetah-v5",
    "requires": ["base"],
}
SMOKE = {"env_id": "Pendulum-v1", "total_timesteps": 2048, "num_steps": 512}


@dataclass
class Args(TorchArgs):
    exp_name: str = "rpo_continuous_action"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "HalfCheetah-v5"
    """the id of the environment"""
    total_timesteps: int = 8000000
    """total timesteps of the experiment [>=1]"""
    learning_rate: float = 3e-4
    """the learning rate of the optimizer [>0]"""
    num_envs: int = 1
    """the number of parallel environments [>=1]"""
    num_steps: int = 2048
    """the number of steps each environment takes in a rollout [>=1]"""
    anneal_lr: bool = True
    """if toggled, the learning rate falls to zero over the run"""
    gamma: float = 0.99
    """the discount factor [0,1]"""
    gae_lambda: float = 0.95
    """the lambda of generalised advantage estimation [0,1]"""
    num_minibatches: int = 32
    """the number of minibatches in an epoch [>=1]"""
    update_epochs: int = 10
    """the number of epochs in an update [>=1]"""
    norm_adv: bool = True
    """if toggled, advantages are normalised in each minibatch"""
    clip_coef: float = 0.2
    """the clipping coefficient of the surrogate objective [>0]"""
    clip_vloss: bool = True
    """if toggled, the value loss is clipped like the policy's"""
    ent_coef: float = 0.0
    """the weight of the entropy bonus [>=0]"""
    vf_coef: float = 0.5
    """the weight of the value loss [>=0]"""
    max_grad_norm: float = 0.5
    """the largest norm of a gradient [>0]"""
    rpo_alpha: float = 0.5
    """the largest shift of the policy's mean during updates [>=0]"""
    target_kl: float | None = None
    """stop an update early when the policy has moved this far [>0]"""


def layer_init(layer: nn.Module, std: float = math.sqrt(2), bias: float = 0.0) -> nn.Module:
    """Orthogonal weights with gain `std` and a constant bias."""
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, bias)
    return layer


class Agent(nn.Module):
    """Separate networks for the policy (a Gaussian) and the value."""

    def __init__(self, envs: Batch) -> None:
        super().__init__()
        inputs = math.prod(envs.single_observation_space.shape)
        outputs = math.prod(envs.single_action_space.shape)
        # speed: `Sequential` is `nn.Sequential`, quicker, and acts on NumPy arrays
        self.critic = Sequential(
            layer_init(nn.Linear(inputs, 64)),
            nn.Tanh(),
            layer_init(nn.Linear(64, 64)),
            nn.Tanh(),
            layer_init(nn.Linear(64, 1), std=1.0),
        )
        self.actor_mean = Sequential(
            layer_init(nn.Linear(inputs, 64)),
            nn.Tanh(),
            layer_init(nn.Linear(64, 64)),
            nn.Tanh(),
            layer_init(nn.Linear(64, outputs), std=0.01),
        )
        self.actor_logstd = nn.Parameter(torch.zeros(outputs))

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """The policy's mean and state values."""
        return self.actor_mean(obs), self.critic(obs).flatten()


def gaussian_log_prob(actions: Tensor, mean: Tensor, logstd: Tensor) -> Tensor:
    """The log-density of independent Gaussians, one sum a row."""
    distance = (actions - mean) / logstd.exp()
    return (-0.5 * distance.square() - logstd - 0.5 * math.log(2 * math.pi)).sum(dim=-1)


def make_policy(envs: Batch, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation, with the statistics it was trained with."""
    agent = Agent(envs)
    agent.load_state_dict(model["agent"])
    statistics = NormalizeObservation(envs)
    statistics.rms.load_state_dict(model["obs_rms"])
    act = gaussian_policy(agent.actor_mean, agent.actor_logstd, agent.critic)
    return prepared(act, statistics.normalize)


def train(args: Args, run: Run) -> None:
    batch_size = args.num_envs * args.num_steps
    minibatch_size = batch_size // args.num_minibatches
    num_iterations = args.total_timesteps // batch_size
    if batch_size % args.num_minibatches:
        raise UsageError(
            f"--num-minibatches {args.num_minibatches} does not divide the batch of "
            f"{batch_size} (--num-envs {args.num_envs} times --num-steps {args.num_steps})."
        )

    normalized = NormalizeObservation(run.make_envs(args.num_envs))
    envs = NormalizeReward(normalized, args.gamma)
    agent = Agent(envs).to(run.device)
    optimizer = Adam(agent.parameters(), args.learning_rate, eps=1e-5)
    accelerate = accelerator(args, run.device)
    policy = gaussian_policy(agent.actor_mean, agent.actor_logstd)

    # Storage of one rollout; the last row of values belongs to the state after it
    shape = (args.num_steps, args.num_envs)
    obs = np.zeros((*shape, *envs.single_observation_space.shape), envs.obs.dtype)
    actions = np.zeros((*shape, *envs.single_action_space.shape), np.float32)
    rewards = np.zeros(shape, np.float32)
    ends = np.zeros(shape, np.bool_)
    values = np.zeros((args.num_steps + 1, args.num_envs), np.float32)
    advantages = np.zeros(shape, np.float32)

    envs.reset(seed=args.seed)
    # What a checkpoint holds: with it a stopped run goes on as if nothing had happened
    run.remember({"agent": agent, "obs_rms": normalized.rms}, optimizer=optimizer, envs=envs)
    next_obs = envs.obs
    # Each turn takes batch_size steps; the loop also ends when the run is told to stop
    for global_step in run.steps(batch_size):
        if args.anneal_lr:
            optimizer.lr = (1.0 - global_step / (num_iterations * batch_size)) * args.learning_rate

        # Collect a rollout
        for t in range(args.num_steps):
            global_step += args.num_envs
            obs[t] = next_obs
            actions[t] = policy(next_obs, run.rng, deterministic=False)
            next_obs, rewards[t], terminated, truncated, info = envs.step(actions[t])
            ends[t] = terminated | truncated
            if info:
                # A truncated episode was not lost: add what its last state was still worth.
                cut_off = truncated & ~terminated
                if cut_off.any():
                    rewards[t] += args.gamma * cut_off * agent.critic(info["final_obs"]).flatten()
                run.log_episodes(global_step, info)
        # speed: the value network did not change during the rollout, so one pass is enough
        values[:-1] = agent.critic(obs.reshape(batch_size, *obs.shape[2:])).reshape(shape)
        values[-1] = agent.critic(next_obs).flatten()

        # Advantages (Schulman et al., 2016): A(t) = delta(t) + gamma lambda A(t+1), where
        # delta(t) = r(t) + gamma V(t+1) - V(t); nothing is added beyond the end of an episode
        goes_on = 1.0 - ends.astype(np.float32)
        deltas = rewards + args.gamma * goes_on * values[1:] - values[:-1]
        decay = args.gamma * args.gae_lambda * goes_on
        advantages[-1] = deltas[-1]
        for t in reversed(range(args.num_steps - 1)):
            advantages[t] = deltas[t] + decay[t] * advantages[t + 1]
        returns = advantages + values[:-1]

        # Flatten the batch
        b_obs = torch.from_numpy(obs).to(run.device).flatten(0, 1)
        b_actions = torch.from_numpy(actions).to(run.device).flatten(0, 1)
        with torch.no_grad():
            b_logprobs = gaussian_log_prob(b_actions, agent.actor_mean(b_obs), agent.actor_logstd)
        b_advantages = torch.from_numpy(advantages).to(run.device).flatten()
        b_returns = torch.from_numpy(returns).to(run.device).flatten()
        b_values = torch.from_numpy(values[:-1]).to(run.device).flatten()
        batch = (b_obs, b_actions, b_logprobs, b_advantages, b_returns, b_values)

        @accelerate  # speed: --compile and --cudagraphs take this function as one piece
        def update(
            obs: Tensor,
            actions: Tensor,
            old_logprobs: Tensor,
            advantages: Tensor,
            returns: Tensor,
            old_values: Tensor,
        ) -> tuple[Tensor, ...]:
            """One gradient step on a minibatch; the losses and how far the policy moved."""
            mean, new_values = agent(obs)
            # RPO: in updates the mean is shifted at random, in the rollout it was not
            mean = mean + torch.empty_like(mean).uniform_(-args.rpo_alpha, args.rpo_alpha)
            entropy = (0.5 + 0.5 * math.log(2 * math.pi) + agent.actor_logstd).sum()
            logratio = gaussian_log_prob(actions, mean, agent.actor_logstd) - old_logprobs
            ratio = logratio.exp()
            if args.norm_adv:
                std, mean = torch.std_mean(advantages)
                advantages = (advantages - mean) / (std + 1e-8)

            # Policy loss: the pessimistic one of the plain and the clipped ratio
            clipped_ratio = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
            pg_loss = -torch.min(advantages * ratio, advantages * clipped_ratio).mean()

            # Value loss
            v_errors = (new_values - returns).square()
            if args.clip_vloss:
                moved = (new_values - old_values).clamp(-args.clip_coef, args.clip_coef)
                v_errors = torch.max(v_errors, (old_values + moved - returns).square())
            v_loss = 0.5 * v_errors.mean()

            loss = pg_loss - args.ent_coef * entropy + args.vf_coef * v_loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.clip_grad_norm_(args.max_grad_norm)
            optimizer.step()

            return v_loss.detach(), pg_loss.detach(), entropy.detach(), logratio.detach()

        # Optimise the policy and the value network
        measured = []
        for _ in range(args.update_epochs):
            order = torch.from_numpy(run.rng.permutation(batch_size)).to(run.device)
            for rows in order.split(minibatch_size):
                measured.append(update(*(tensor[rows] for tensor in batch)))
            v_loss, pg_loss, entropy, logratio = measured[-1]
            approx_kl = (logratio.exp() - 1 - logratio).mean().item()
            if args.target_kl is not None and approx_kl > args.target_kl:
                break

        moved = torch.stack([logratio for *_, logratio in measured]).exp() - 1
        clipfrac = (moved.abs() > args.clip_coef).float().mean()
        variance = returns.var()
        run.log(
            global_step,
            {
                "charts/learning_rate": optimizer.lr,
                "losses/value_loss": v_loss.item(),
                "losses/policy_loss": pg_loss.item(),
                "losses/entropy": entropy.item(),
                "losses/old_approx_kl": -logratio.mean().item(),
                "losses/approx_kl": approx_kl,
                "losses/clipfrac": clipfrac.item(),
                "losses/explained_variance": (
                    1 - (returns - values[:-1]).var() / variance if variance > 0 else np.nan
                ),
            },
        )
    envs.close()


if __name__ == "__main__":
    main(Args, train)
