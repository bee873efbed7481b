"""The agent for flat observations: two Tanh layers of 64, separate actor and critic."""

from __future__ import annotations

import math

from torch import Tensor, nn

from cleanrl_worker.agents.layers import layer_init
from cleanrl_worker.kit.fused import SideBySide


def tanh_mlp(inputs: int, outputs: int, std: float) -> nn.Sequential:
    """Two Tanh layers of 64 and a linear head whose weights have gain ``std``."""
    return nn.Sequential(
        layer_init(nn.Linear(inputs, 64)),
        nn.Tanh(),
        layer_init(nn.Linear(64, 64)),
        nn.Tanh(),
        layer_init(nn.Linear(64, outputs), std=std),
    )


class MLPAgent(nn.Module):
    """Separate networks for the policy (action logits) and the value."""

    def __init__(self, observation_shape: tuple[int, ...], num_actions: int) -> None:
        super().__init__()
        inputs = math.prod(observation_shape)
        self.critic = tanh_mlp(inputs, 1, std=1.0)
        self.actor = tanh_mlp(inputs, num_actions, std=0.01)
        self._both = SideBySide(self.actor, self.critic)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Action logits and state values."""
        logits, value = self._both(obs)
        return logits, value.flatten()

    def policy_network(self) -> nn.Module:
        """The part that acts: from observations to action logits."""
        return self.actor

    def value_network(self) -> nn.Module:
        """The part that judges: from observations to one value a row."""
        return self.critic
