"""PPO with a memory computed again from a trial, step by step, around a small network."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from mutants.rollouts import Rollout, advantages, load_state, loss_of_ppo, plain_adam, small_trunk
from mutants.trial import Turn


class SmallMemory(nn.Module):
    """A small network that remembers, in place of a file's convolutions and its LSTM."""

    hidden = 8

    def __init__(self, envs: Any) -> None:
        super().__init__()
        self.network = small_trunk(envs)
        self.cell = nn.LSTMCell(16, self.hidden)
        self.actor = nn.Linear(self.hidden, int(envs.single_action_space.n))
        self.critic = nn.Linear(self.hidden, 1)

    def forward(self, obs: Tensor, begins: Tensor, state: Tensor) -> tuple[Tensor, ...]:
        """Action logits, state values and what is remembered."""
        envs = state.shape[1]
        memory, cell = state
        outputs = []
        features = self.network(obs).view(-1, envs, 16)
        for now, begin in zip(features, begins.view(-1, envs, 1), strict=True):
            memory, cell = self.cell(now, ((1 - begin) * memory, (1 - begin) * cell))
            outputs.append(memory)
        rows = torch.cat(outputs)
        return self.actor(rows), self.critic(rows).flatten(), torch.stack([memory, cell])


class Remembered:
    """What is remembered between two rollouts, and where episodes begin in the next."""

    def __init__(self, envs: int) -> None:
        self.state = torch.zeros(2, envs, SmallMemory.hidden)
        self.begins = torch.ones(envs)


def replay_with_memory(
    turn: Turn, args: Any, agent: nn.Module, lr: float, memory: Remembered
) -> dict[str, float]:
    """One turn of a PPO that remembers: what should be logged; the agent learns."""
    load_state(agent, turn.before["agent"])
    rollout = Rollout.of(turn)
    ends = (rollout.terminated | rollout.truncated).float()
    begins = torch.cat([memory.begins.unsqueeze(0), ends[:-1]])
    first = memory.state
    seen: list[tuple[Tensor, Tensor, Tensor]] = []
    with torch.no_grad():
        for now, begin, following in zip(rollout.obs, begins, rollout.following, strict=True):
            logits, value, memory.state = agent(now, begin, memory.state)
            # The episode's last picture is looked at with the memory of the episode.
            ahead = agent(following, torch.zeros_like(begin), memory.state)[1]
            seen.append((logits, value, ahead))
        memory.begins = ends[-1]
        logits, values, ahead = (torch.stack(column) for column in zip(*seen, strict=True))
        old_log_probs = Categorical(logits=logits).log_prob(rollout.actions)
        gae = advantages(
            rollout,
            lambda obs: values if obs is rollout.obs else ahead,
            args.gamma,
            args.gae_lambda,
        )
    returns = gae + values
    optimizer = plain_adam(torch.optim.Adam, agent, turn.before["optimizer"], lr, eps=1e-5)
    logged: dict[str, float] = {}
    clipped = []
    for order in turn.orders:
        for some in torch.from_numpy(order).chunk(args.num_minibatches):
            # Whole rollouts of some environments, step by step.
            obs, starts, actions, was, advantage, old, goal = (
                part[:, some].flatten(0, 1)
                for part in (
                    rollout.obs, begins, rollout.actions, old_log_probs, gae, values, returns
                )
            )  # fmt: skip
            new_logits, value, _ = agent(obs, starts, first[:, some])
            chosen = Categorical(logits=new_logits)
            ratio = (chosen.log_prob(actions) - was).exp()
            entropy = chosen.entropy().mean()
            loss, logged = loss_of_ppo(args, ratio, advantage, value, old, goal, entropy)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
            optimizer.step()
            clipped.append(((ratio - 1).abs() > args.clip_coef).float().mean().item())
    explained = 1 - gae.var(correction=0) / returns.var(correction=0)
    return {
        **logged,
        "losses/clipfrac": float(np.mean(clipped)),
        "losses/explained_variance": explained.item(),
        "charts/learning_rate": lr,
    }
