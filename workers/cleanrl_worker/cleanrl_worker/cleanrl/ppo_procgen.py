"""Proximal Policy Optimization (Schulman et al., 2017) for Procgen (Cobbe et al., 2020).

Alternate between collecting a short rollout with the current policy and several epochs of
minibatch updates on it. The clipped ratio keeps each update close to the policy that
collected the data. Policy and value share a residual trunk, and rewards are scaled by the
spread of the returns.

Procgen's levels are drawn from endlessly many by default; `--num-levels` trains on a
fixed set, as for measuring how well a policy carries over to levels it never saw.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from cleanrl_worker.agents.pixels import ScaledPixels
from cleanrl_worker.kit.acceleration import accelerator
from cleanrl_worker.kit.args import TorchArgs
from cleanrl_worker.kit.envpool import EnvPoolEnvs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.inference import Policy, categorical_policy, heads, on_arrays
from cleanrl_worker.kit.normalize import NormalizeReward
from cleanrl_worker.kit.optim import Adam
from cleanrl_worker.kit.run import Run
from cleanrl_worker.kit.script import main
from cleanrl_worker.kit.types import Batch

ALGORITHM = {
    "title": "Proximal Policy Optimization, Procgen",
    "paper": "Schulman et al. 2017, https://arxiv.org/abs/1707.06347",
    "family": "PPO",
    "actions": ["discrete"],
    "observations": ["image"],
    "default_env": "starpilot",
    "requires": ["base", "procgen"],
}
SMOKE = {"total_timesteps": 256, "num_envs": 2, "num_steps": 32}


@dataclass
class Args(TorchArgs):
    exp_name: str = "ppo_procgen"
    """the name of this experiment"""

    # Algorithm specific arguments
    env_id: str = "starpilot"
    """the game, such as starpilot, or EnvPool's id for it, such as StarpilotHard-v0"""
    distribution_mode: str = "easy"
    """how difficult the levels of a game given by name are [easy|hard]"""
    num_levels: int = 0
    """how many different levels there are; 0 for no end [>=0]"""
    start_level: int = 0
    """the first of these levels [>=0]"""
    total_timesteps: int = 25000000
    """total timesteps of the experiment [>=1]"""
    learning_rate: float = 5e-4
    """the learning rate of the optimizer [>0]"""
    num_envs: int = 64
    """the number of parallel environments [>=1]"""
    num_steps: int = 256
    """the number of steps each environment takes in a rollout [>=1]"""
    anneal_lr: bool = False
    """if toggled, the learning rate falls to zero over the run"""
    gamma: float = 0.999
    """the discount factor [0,1]"""
    gae_lambda: float = 0.95
    """the lambda of generalised advantage estimation [0,1]"""
    num_minibatches: int = 8
    """the number of minibatches in an epoch [>=1]"""
    update_epochs: int = 3
    """the number of epochs in an update [>=1]"""
    norm_adv: bool = True
    """if toggled, advantages are normalised in each minibatch"""
    clip_coef: float = 0.2
    """the clipping coefficient of the surrogate objective [>0]"""
    clip_vloss: bool = True
    """if toggled, the value loss is clipped like the policy's"""
    ent_coef: float = 0.01
    """the weight of the entropy bonus [>=0]"""
    vf_coef: float = 0.5
    """the weight of the value loss [>=0]"""
    max_grad_norm: float = 0.5
    """the largest norm of a gradient [>0]"""
    target_kl: float | None = None
    """stop an update early when the policy has moved this far [>0]"""


def layer_init(layer: nn.Module, std: float = math.sqrt(2), bias: float = 0.0) -> nn.Module:
    """Orthogonal weights with gain `std` and a constant bias."""
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, bias)
    return layer


class ResidualBlock(nn.Module):
    """Two convolutions that learn a change to what came in."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv0 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, maps: Tensor) -> Tensor:
        return maps + self.conv1(self.conv0(maps.relu()).relu())


def conv_sequence(channels: int, outputs: int) -> nn.Sequential:
    """A convolution, a pooling that halves width and height, and two residual blocks."""
    return nn.Sequential(
        nn.Conv2d(channels, outputs, 3, padding=1),
        nn.MaxPool2d(3, stride=2, padding=1),
        ResidualBlock(outputs),
        ResidualBlock(outputs),
    )


class Agent(nn.Module):
    """One trunk, that of IMPALA, and two heads: action logits and the value."""

    def __init__(self, envs: Batch) -> None:
        super().__init__()
        self.network = nn.Sequential(
            ScaledPixels(),
            conv_sequence(envs.single_observation_space.shape[0], 16),
            conv_sequence(16, 32),
            conv_sequence(32, 32),
            nn.Flatten(),
            nn.ReLU(),
            nn.Linear(32 * 8 * 8, 256),
            nn.ReLU(),
        )
        self.actor = layer_init(nn.Linear(256, int(envs.single_action_space.n)), std=0.01)
        self.critic = layer_init(nn.Linear(256, 1), std=1.0)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Action logits and state values."""
        hidden = self.network(obs)
        return self.actor(hidden), self.critic(hidden).flatten()


def make_eval_envs(args: Args, num_envs: int, video_dir: str | None) -> EnvPoolEnvs:
    """The levels it was trained on, with their true rewards."""
    return EnvPoolEnvs(
        args.env_id,
        num_envs,
        video_dir=video_dir,
        distribution_mode=args.distribution_mode,
        num_levels=args.num_levels,
        start_level=args.start_level,
    )


def make_policy(envs: Batch, args: Args, model: dict) -> Policy:
    """Rebuild the trained policy for evaluation."""
    agent = Agent(envs)
    agent.load_state_dict(model["agent"])
    return categorical_policy(*heads(agent.network, agent.actor, agent.critic))


def train(args: Args, run: Run) -> None:
    batch_size = args.num_envs * args.num_steps
    minibatch_size = batch_size // args.num_minibatches
    num_iterations = args.total_timesteps // batch_size
    if batch_size % args.num_minibatches:
        raise UsageError(
            f"--num-minibatches {args.num_minibatches} does not divide the batch of "
            f"{batch_size} (--num-envs {args.num_envs} times --num-steps {args.num_steps})."
        )

    envs = NormalizeReward(make_eval_envs(args, args.num_envs, run.video_dir), args.gamma)
    run.check_spaces(envs)
    agent = Agent(envs).to(run.device)
    optimizer = Adam(agent.parameters(), args.learning_rate, eps=1e-5)
    accelerate = accelerator(args, run.device)
    act = on_arrays(agent, accelerate)

    # Storage of one rollout; the last row of values belongs to the state after it
    shape = (args.num_steps, args.num_envs)
    obs = np.zeros((*shape, *envs.single_observation_space.shape), envs.obs.dtype)
    logits = np.zeros((*shape, int(envs.single_action_space.n)), np.float32)
    actions = np.zeros(shape, np.int64)
    rewards = np.zeros(shape, np.float32)
    ends = np.zeros(shape, np.bool_)
    values = np.zeros((args.num_steps + 1, args.num_envs), np.float32)
    advantages = np.zeros(shape, np.float32)

    envs.reset(seed=args.seed)
    # What a checkpoint holds: with it a stopped run goes on as if nothing had happened
    run.remember({"agent": agent}, optimizer=optimizer, envs=envs)
    next_obs = envs.obs
    # Each turn takes batch_size steps; the loop also ends when the run is told to stop
    for global_step in run.steps(batch_size):
        if args.anneal_lr:
            optimizer.lr = (1.0 - global_step / (num_iterations * batch_size)) * args.learning_rate

        # Collect a rollout
        for t in range(args.num_steps):
            global_step += args.num_envs
            obs[t] = next_obs
            logits[t], values[t] = act(next_obs)
            actions[t] = run.rng.categorical(logits[t])
            next_obs, rewards[t], terminated, truncated, info = envs.step(actions[t])
            ends[t] = terminated | truncated
            if info:
                # A truncated episode was not lost: add what its last state was still worth.
                cut_off = truncated & ~terminated
                if cut_off.any():
                    rewards[t] += args.gamma * cut_off * act(info["final_obs"])[1]
                run.log_episodes(global_step, info)
        values[-1] = act(next_obs)[1]

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
        b_actions = torch.from_numpy(actions).to(run.device).flatten().unsqueeze(1)
        b_logits = torch.from_numpy(logits).to(run.device).flatten(0, 1)
        b_logprobs = b_logits.log_softmax(-1).gather(1, b_actions)
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
            new_logits, new_values = agent(obs)
            log_probs = new_logits.log_softmax(-1)
            entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
            logratio = (log_probs.gather(1, actions) - old_logprobs).squeeze(1)
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
