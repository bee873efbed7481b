"""Proximal Policy Optimization (Schulman et al., 2017) for continuous actions.

Alternate between collecting a short rollout with the current policy and several epochs of
minibatch updates on it. The policy is a Gaussian whose mean is a network's output and whose
standard deviation is learned beside it. Observations and rewards are normalised as they come.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from cleanrl_worker.agents.mlp import tanh_mlp
from cleanrl_worker.kit.acceleration import accelerated
from cleanrl_worker.kit.args import TorchArgs
from cleanrl_worker.kit.envs import Envs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.fused import SideBySide
from cleanrl_worker.kit.inference import Policy, gaussian_policy, numpy_forward
from cleanrl_worker.kit.minibatches import minibatches
from cleanrl_worker.kit.normalize import NormalizeObservation, NormalizeReward
from cleanrl_worker.kit.optim import Adam
from cleanrl_worker.kit.returns import gae
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.script import main

ALGORITHM = {
    "title": "Proximal Policy Optimization, continuous actions",
    "paper": "Schulman et al. 2017, https://arxiv.org/abs/1707.06347",
    "family": "PPO",
    "actions": ["continuous"],
    "observations": ["vector"],
    "default_env": "HalfCheetah-v5",
    "requires": ["base"],
}
SMOKE = {"env_id": "Pendulum-v1", "total_timesteps": 2048, "num_steps": 512}


@dataclass
class Args(TorchArgs):
    exp_name: str = "ppo_continuous_action"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "HalfCheetah-v5"
    """the id of the environment"""
    total_timesteps: int = 1000000
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
    target_kl: float | None = None
    """stop an update early when the policy has moved this far [>0]"""


class Agent(nn.Module):
    """Separate networks for the policy (a Gaussian) and the value."""

    def __init__(self, envs: Envs) -> None:
        super().__init__()
        inputs = math.prod(envs.single_observation_space.shape)
        outputs = math.prod(envs.single_action_space.shape)
        self.critic = tanh_mlp(inputs, 1, std=1.0)
        self.actor_mean = tanh_mlp(inputs, outputs, std=0.01)
        self.actor_logstd = nn.Parameter(torch.zeros(outputs))
        self._both = SideBySide(self.actor_mean, self.critic)

    def forward(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The log-probability of actions, the policy's entropy, and state values."""
        mean, value = self._both(obs)
        log_prob = gaussian_log_prob(actions, mean, self.actor_logstd)
        entropy = (0.5 + 0.5 * math.log(2 * math.pi) + self.actor_logstd).sum()
        return log_prob, entropy, value.flatten()


def gaussian_log_prob(actions: Tensor, mean: Tensor, logstd: Tensor) -> Tensor:
    """The log-density of independent Gaussians, one sum a row."""
    distance = (actions - mean) / logstd.exp()
    return (-0.5 * distance.square() - logstd - 0.5 * math.log(2 * math.pi)).sum(dim=-1)


def make_policy(envs: Envs, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation, with the statistics it was trained with."""
    agent = Agent(envs)
    agent.load_state_dict(model["agent"])
    statistics = NormalizeObservation(envs)
    statistics.rms.load_state_dict(model["obs_rms"])
    act = gaussian_policy(agent.actor_mean, agent.actor_logstd)
    return lambda obs, rng, deterministic: act(statistics.normalize(obs), rng, deterministic)


def train(args: Args, run: Run) -> None:
    batch_size = args.num_envs * args.num_steps
    if batch_size % args.num_minibatches:
        raise UsageError(
            f"--num-minibatches {args.num_minibatches} does not divide the batch of "
            f"{batch_size} (--num-envs {args.num_envs} times --num-steps {args.num_steps})."
        )
    minibatch_size = batch_size // args.num_minibatches
    num_iterations = args.total_timesteps // batch_size

    raw_envs = run.make_envs(args.num_envs)
    normalized = NormalizeObservation(raw_envs)
    envs = NormalizeReward(normalized, args.gamma)
    agent = Agent(envs).to(run.device)
    optimizer = Adam(
        agent.parameters(), args.learning_rate, eps=1e-5, max_grad_norm=args.max_grad_norm
    )
    policy = gaussian_policy(agent.actor_mean, agent.actor_logstd)
    value = numpy_forward(agent.critic)

    def update(
        obs: Tensor,
        actions: Tensor,
        logprobs: Tensor,
        advantages: Tensor,
        returns: Tensor,
        values: Tensor,
    ) -> tuple[Tensor, ...]:
        new_logprob, entropy, new_value = agent(obs, actions)
        logratio = new_logprob - logprobs
        ratio = logratio.exp()

        if args.norm_adv:
            std, mean = torch.std_mean(advantages)
            advantages = (advantages - mean) / (std + 1e-8)

        # Policy loss: the pessimistic one of the plain and the clipped ratio
        clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
        pg_loss = -torch.min(advantages * ratio, advantages * clipped).mean()

        # Value loss
        v_error = (new_value - returns).square()
        if args.clip_vloss:
            moved = (new_value - values).clamp(-args.clip_coef, args.clip_coef)
            v_error = torch.max(v_error, (values + moved - returns).square())
        v_loss = 0.5 * v_error.mean()

        loss = pg_loss - args.ent_coef * entropy + args.vf_coef * v_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return v_loss.detach(), pg_loss.detach(), entropy.detach(), logratio.detach()

    update = accelerated(update, args, run.device)

    # Storage of one rollout
    shape = (args.num_steps, args.num_envs)
    obs = np.zeros((*shape, *envs.single_observation_space.shape), np.float32)
    actions = np.zeros((*shape, *envs.single_action_space.shape), np.float32)
    rewards = np.zeros(shape, np.float32)
    ends = np.zeros(shape, np.bool_)

    envs.reset(seed=args.seed)
    run.remember({"agent": agent, "obs_rms": normalized.rms}, optimizer=optimizer, envs=envs)
    next_obs = envs.obs
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
                # A truncated episode would have gone on: count the value it still had.
                cut_off = truncated & ~terminated
                rewards[t] += args.gamma * cut_off * value(info["final_obs"]).ravel()
                run.log_episodes(global_step, info)

        # Advantages and returns
        values = value(obs.reshape(batch_size, *obs.shape[2:])).reshape(shape)
        last_value = value(next_obs).ravel()
        advantages = gae(rewards, values, last_value, ends, args.gamma, args.gae_lambda)
        returns = advantages + values

        # Flatten the batch
        b_obs = torch.from_numpy(obs).to(run.device).flatten(0, 1)
        b_actions = torch.from_numpy(actions).to(run.device).flatten(0, 1)
        with torch.no_grad():
            b_logprobs, _, _ = agent(b_obs, b_actions)
        b_values = torch.from_numpy(values).to(run.device).flatten()
        b_advantages = torch.from_numpy(advantages).to(run.device).flatten()
        b_returns = torch.from_numpy(returns).to(run.device).flatten()
        batch = (b_obs, b_actions, b_logprobs, b_advantages, b_returns, b_values)

        # Optimise the policy and the value network
        clipfracs = []
        for _ in range(args.update_epochs):
            for minibatch in minibatches(run.rng, minibatch_size, *batch):
                v_loss, pg_loss, entropy, logratio = update(*minibatch)
            ratio = logratio.exp()
            approx_kl = (ratio - 1 - logratio).mean()
            clipfracs.append((ratio - 1.0).abs().gt(args.clip_coef).float().mean().item())
            if args.target_kl is not None and approx_kl > args.target_kl:
                break

        variance = returns.var()
        run.log(
            global_step,
            {
                "charts/learning_rate": optimizer.lr,
                "losses/value_loss": v_loss.item(),
                "losses/policy_loss": pg_loss.item(),
                "losses/entropy": entropy.item(),
                "losses/old_approx_kl": -logratio.mean().item(),
                "losses/approx_kl": approx_kl.item(),
                "losses/clipfrac": np.mean(clipfracs),
                "losses/explained_variance": (
                    1 - (returns - values).var() / variance if variance > 0 else np.nan
                ),
            },
        )
    envs.close()


if __name__ == "__main__":
    main(Args, train)
