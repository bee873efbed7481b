"""The agent for MiniGrid and BabyAI grids: a small convolutional trunk with two heads."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cleanrl_worker.agents.layers import layer_init


class _ChannelsFirst(nn.Module):
    def forward(self, grid: Tensor) -> Tensor:
        return grid.permute(0, 3, 1, 2).to(torch.float32)


class MinigridAgent(nn.Module):
    """Three 3x3 convolutions over the grid, then separate policy and value heads."""

    def __init__(self, observation_shape: tuple[int, ...], num_actions: int) -> None:
        super().__init__()
        height, width, channels = observation_shape
        self.trunk = nn.Sequential(
            _ChannelsFirst(),
            layer_init(nn.Conv2d(channels, 32, 3, padding=1)),
            nn.ReLU(),
            layer_init(nn.Conv2d(32, 64, 3, padding=1)),
            nn.ReLU(),
            layer_init(nn.Conv2d(64, 64, 3, padding=1)),
            nn.ReLU(),
            nn.Flatten(),
            layer_init(nn.Linear(64 * height * width, 128)),
            nn.ReLU(),
        )
        self.actor = nn.Sequential(
            layer_init(nn.Linear(128, 128)),
            nn.ReLU(),
            layer_init(nn.Linear(128, num_actions), std=0.01),
        )
        self.critic = nn.Sequential(
            layer_init(nn.Linear(128, 128)),
            nn.ReLU(),
            layer_init(nn.Linear(128, 1), std=1.0),
        )

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Action logits and state values."""
        hidden = self.trunk(obs)
        return self.actor(hidden), self.critic(hidden).flatten()

    def policy_network(self) -> nn.Module:
        """The part that acts: from observations to action logits."""
        return nn.Sequential(self.trunk, self.actor)

    def value_network(self) -> nn.Module:
        """The part that judges: from observations to one value a row."""
        return nn.Sequential(self.trunk, self.critic)
