"""PPO and its relatives computed again from a trial, slowly and by the definitions.

`replay` goes through a turn as CleanRL writes it: torch's own distributions, optimiser and
clipping, sums written out. It takes from the trial what the environments did, the actions, and
the order of the minibatches; everything else it computes itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Distribution, Normal

from mutants.noise_envs import NoisePool
from mutants.trial import State, Trial, Turn


@dataclass
class Rollout:
    """What a turn collected, with one row for each step and one column for each environment."""

    obs: Tensor
    actions: Tensor
    rewards: Tensor
    terminated: Tensor
    truncated: Tensor
    following: Tensor
    """the true next observations; where an episode ended, its last one"""

    @classmethod
    def of(cls, turn: Turn) -> Rollout:
        """Stack the steps of a turn."""
        names = ("obs", "actions", "rewards", "terminated", "truncated", "following")
        columns = ([getattr(step, name) for step in turn.steps] for name in names)
        return cls(*(torch.from_numpy(np.stack(column)) for column in columns))

    @property
    def kinds(self) -> set[str]:
        """The ways in which episodes ended."""
        found = set()
        if self.terminated.any():
            found.add("terminated")
        if (self.truncated & ~self.terminated).any():
            found.add("truncated")
        return found


def tanh_network(inputs: int, outputs: int) -> nn.Sequential:
    """Two Tanh layers of 64 and a linear one."""
    return nn.Sequential(
        nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)
    )


class PlainAgent(nn.Module):
    """PPO's two networks and its distribution, in plain torch with the names of the file."""

    def __init__(self, inputs: int, outputs: int, *, continuous: bool) -> None:
        super().__init__()
        self.critic = tanh_network(inputs, 1)
        self.continuous = continuous
        if continuous:
            self.actor_mean = tanh_network(inputs, outputs)
            self.actor_logstd = nn.Parameter(torch.zeros(outputs))
        else:
            self.actor = tanh_network(inputs, outputs)

    def distribution(self, obs: Tensor, shift: Tensor | None = None) -> Distribution:
        """The policy; `shift` moves the mean of a Gaussian, as RPO does."""
        if not self.continuous:
            return Categorical(logits=self.actor(obs))
        mean = self.actor_mean(obs)
        return Normal(mean if shift is None else mean + shift, self.actor_logstd.exp())

    def log_prob(self, distribution: Distribution, actions: Tensor) -> Tensor:
        """One number for each row."""
        log_prob = distribution.log_prob(actions)
        return log_prob.sum(-1) if self.continuous else log_prob

    def entropy(self, distribution: Distribution) -> Tensor:
        """One number for each row."""
        entropy = distribution.entropy()
        return entropy.sum(-1) if self.continuous else entropy

    def value(self, obs: Tensor) -> Tensor:
        """One number for each state."""
        return self.critic(obs).squeeze(-1)


class SmallAgent(nn.Module):
    """One trunk and two heads, in place of a file's convolutions: milliseconds, not seconds."""

    def __init__(self, envs: Any) -> None:
        super().__init__()
        self.network = small_trunk(envs)
        self.actor = nn.Linear(16, int(envs.single_action_space.n))
        self.critic = nn.Linear(16, 1)

    def forward(self, obs: Tensor) -> tuple[Tensor, ...]:
        """Action logits and state values."""
        hidden = self.network(obs)
        return self.actor(hidden), self.critic(hidden).flatten()


class SmallQ(nn.Module):
    """From small pictures to the value of each action, in place of a file's convolutions."""

    def __init__(self, envs: Any) -> None:
        super().__init__()
        self.network = nn.Sequential(
            *small_trunk(envs), nn.LayerNorm(16), nn.Linear(16, int(envs.single_action_space.n))
        )

    def forward(self, obs: Tensor) -> Tensor:
        """The value of each action."""
        values: Tensor = self.network(obs)
        return values


def small_trunk(envs: Any) -> nn.Sequential:
    """From small pictures to features."""
    pixels = int(np.prod(envs.single_observation_space.shape))
    return nn.Sequential(_Scaled(), nn.Flatten(), nn.Linear(pixels, 16), nn.Tanh())


class _Scaled(nn.Module):
    def forward(self, pixels: Tensor) -> Tensor:
        return pixels / 255 - 0.5


class AsPlain(nn.Module):
    """A file's own network behind the distribution and the losses of `PlainAgent`.

    For networks that are not what is in question, such as convolutions.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def distribution(self, obs: Tensor, shift: Tensor | None = None) -> Distribution:
        """The policy."""
        return Categorical(logits=self.network(obs)[0])

    def log_prob(self, distribution: Distribution, actions: Tensor) -> Tensor:
        """One number for each row."""
        return distribution.log_prob(actions)

    def entropy(self, distribution: Distribution) -> Tensor:
        """One number for each row."""
        return distribution.entropy()

    def value(self, obs: Tensor) -> Tensor:
        """One number for each state; `obs` may have an axis for steps before that of rows."""
        rows = obs.reshape(-1, *obs.shape[-3:])
        return self.network(rows)[1].reshape(obs.shape[:-3])


def advantages(
    rollout: Rollout, value: Callable[[Tensor], Tensor], gamma: float, gae_lambda: float
) -> Tensor:
    """Generalised advantages as the sum of their definition, for each step on its own."""
    steps, envs = rollout.rewards.shape
    values, following = value(rollout.obs), value(rollout.following)
    result = torch.zeros(steps, envs)
    for env in range(envs):
        for start in range(steps):
            weight = 1.0
            for t in range(start, steps):
                # Only termination makes the next state worthless.
                next_value = 0.0 if rollout.terminated[t, env] else following[t, env]
                delta = rollout.rewards[t, env] + gamma * next_value - values[t, env]
                result[start, env] += weight * delta
                if rollout.terminated[t, env] or rollout.truncated[t, env]:
                    break
                weight *= gamma * gae_lambda
    return result


def q_lambda_returns(
    rollout: Rollout, best: Callable[[Tensor], Tensor], gamma: float, q_lambda: float
) -> Tensor:
    """Peng's returns: each longer look ahead counts lambda times as much as the one before."""
    steps, envs = rollout.rewards.shape
    following = best(rollout.following)
    result = torch.zeros(steps, envs)
    for env in range(envs):
        for start in range(steps):
            earned, share, discount = 0.0, 1.0, 1.0
            for t in range(start, steps):
                earned = earned + discount * rollout.rewards[t, env]
                discount *= gamma
                next_value = 0.0 if rollout.terminated[t, env] else following[t, env]
                last = rollout.terminated[t, env] or rollout.truncated[t, env] or t == steps - 1
                weight = share if last else share * (1 - q_lambda)
                result[start, env] += weight * (earned + discount * next_value)
                share *= q_lambda
                if last:
                    break
    return result


@dataclass
class Replayed:
    """What a turn should have led to."""

    agent: nn.Module
    logged: dict[str, float] = field(default_factory=dict)


def load_state(module: nn.Module, state: State) -> nn.Module:
    """Give a plain network the saved one's numbers, name by name."""
    module.load_state_dict({name: torch.as_tensor(value) for name, value in state.items()})
    return module


def plain_adam(
    optimizer: type[torch.optim.Optimizer],
    agent: nn.Module,
    moments: State,
    lr: float,
    eps: float,
) -> torch.optim.Optimizer:
    """torch's own optimiser, with the moments that ours saved."""
    parameters = list(agent.parameters())
    plain = optimizer(parameters, lr=lr, eps=eps)  # type: ignore[call-arg]
    start = 0
    for parameter in parameters:
        end = start + parameter.numel()
        plain.state[parameter] = {
            "step": torch.as_tensor(moments["step"]).clone(),
            "exp_avg": torch.as_tensor(moments["mean"][start:end]).view_as(parameter).clone(),
            "exp_avg_sq": torch.as_tensor(moments["square"][start:end]).view_as(parameter).clone(),
        }
        start = end
    return plain


def replay(
    turn: Turn,
    args: Any,
    agent: PlainAgent | AsPlain,
    lr: float,
    alpha: float = 0.0,
    *,
    eps: float = 1e-5,
    whole: bool = False,
) -> Replayed:
    """One turn of PPO, RPO or PPG's policy phase.

    Args:
        turn: what happened.
        args: the algorithm's arguments.
        agent: a plain agent of the right size.
        lr: the learning rate of this turn.
        alpha: how far RPO shifts the mean.
        eps: Adam's.
        whole: whether advantages are normalised over the whole batch, as PPG does.
    """
    load_state(agent.network if isinstance(agent, AsPlain) else agent, turn.before["agent"])
    rollout = Rollout.of(turn)
    with torch.no_grad():
        gae = advantages(rollout, agent.value, args.gamma, args.gae_lambda).flatten()
        old_values = agent.value(rollout.obs).flatten()
        obs, actions = rollout.obs.flatten(0, 1), rollout.actions.flatten(0, 1)
        old_log_probs = agent.log_prob(agent.distribution(obs), actions)
    returns = gae + old_values
    # Not a number where returns do not vary.
    explained = 1 - (returns - old_values).var(correction=0) / returns.var(correction=0)
    if whole:
        gae = (gae - gae.mean()) / (gae.std(correction=0) + 1e-8)
    optimizer = plain_adam(torch.optim.Adam, agent, turn.before["optimizer"], lr, eps)
    rows, size = len(obs), len(obs) // args.num_minibatches
    logged: dict[str, float] = {}
    clipped_share = []
    torch.set_rng_state(turn.random)
    for order in turn.orders:
        for start in range(0, rows, size):
            mb = torch.from_numpy(order[start : start + size])
            shift = None
            if alpha:
                shift = torch.zeros(size, actions.shape[1]).uniform_(-alpha, alpha)
            distribution = agent.distribution(obs[mb], shift)
            ratio = (agent.log_prob(distribution, actions[mb]) - old_log_probs[mb]).exp()
            entropy = agent.entropy(distribution).mean()
            loss, logged = loss_of_ppo(
                args, ratio, gae[mb], agent.value(obs[mb]), old_values[mb], returns[mb], entropy
            )
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
            optimizer.step()
            clipped_share.append(((ratio - 1).abs() > args.clip_coef).float().mean().item())
    logged |= {
        "losses/clipfrac": float(np.mean(clipped_share)),
        "losses/explained_variance": explained.item(),
        "charts/learning_rate": lr,
    }
    return Replayed(agent, logged)


def loss_of_ppo(
    args: Any,
    ratio: Tensor,
    advantage: Tensor,
    value: Tensor,
    old_value: Tensor,
    returns: Tensor,
    entropy: Tensor,
) -> tuple[Tensor, dict[str, float]]:
    """PPO's loss of a minibatch, and what curves show of it."""
    if args.norm_adv:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    surrogates = advantage * ratio, advantage * ratio.clip(1 - args.clip_coef, 1 + args.clip_coef)
    policy_loss = -torch.minimum(*surrogates).mean()
    errors = (value - returns) ** 2
    if args.clip_vloss:
        near = old_value + (value - old_value).clip(-args.clip_coef, args.clip_coef)
        errors = torch.maximum(errors, (near - returns) ** 2)
    value_loss = errors.mean() / 2
    return policy_loss - args.ent_coef * entropy + args.vf_coef * value_loss, {
        "losses/value_loss": value_loss.item(),
        "losses/policy_loss": policy_loss.item(),
        "losses/entropy": entropy.item(),
        "losses/old_approx_kl": -ratio.log().mean().item(),
        "losses/approx_kl": (ratio - 1 - ratio.log()).mean().item(),
    }


class _LookedAtError(Exception):
    """The run has seen the games."""


def games_made(module: ModuleType, batch: str, **arguments: Any) -> dict[str, Any]:
    """What a file asks for when it makes its games.

    Before it does anything with them, the run must be asked whether it can play them.

    Args:
        module: an algorithm file.
        batch: what it calls its games.
        arguments: fields of its `Args` that differ from the defaults.
    """
    asked: dict[str, Any] = {}

    class Asked(NoisePool):
        def __init__(self, env_id: str, num_envs: int, **options: Any) -> None:
            asked.update(options, env_id=env_id, num_envs=num_envs)
            super().__init__(env_id, num_envs)

    class Looking(Trial):
        def check_spaces(self, envs: Any) -> None:
            raise _LookedAtError

        def steps(self, stride: int) -> Iterator[int]:
            raise AssertionError("the run begins without being asked")

    setattr(module, batch, Asked)
    args = module.Args(cuda=False, **arguments)
    with pytest.raises(_LookedAtError):
        module.train(args, Looking(args, {}))
    return asked
