"""The agent for MiniGrid and BabyAI grids: a small convolutional trunk with two heads."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cleanrl_worker.agents.grid_convolutions import convolve, distinct_rows
from cleanrl_worker.agents.layers import layer_init

# Below this torch's own convolutions are quicker.
_FEW_GRIDS = 12


class _ChannelsFirst(nn.Module):
    def forward(self, grid: Tensor) -> Tensor:
        return grid.permute(0, 3, 1, 2).to(torch.float32)


class _Trunk(nn.Sequential):
    """From grids to features; equal parts of grids count once where that pays."""

    def forward(self, grids: Tensor) -> Tensor:
        if grids.device.type != "cpu" or len(grids) <= _FEW_GRIDS:
            return super().forward(grids)
        convolutions = [layer for layer in self if isinstance(layer, nn.Conv2d)]
        features = convolve(grids, convolutions).permute(0, 3, 1, 2).flatten(1)
        return self[-1](self[-2](features))


class _Network(nn.Sequential):
    """A trunk and a head; on the CPU equal grids count once."""

    def forward(self, grids: Tensor) -> Tensor:
        if grids.device.type != "cpu":
            return super().forward(grids)
        grids, kinds = _distinct(grids)
        return super().forward(grids).index_select(0, kinds)


def _distinct(grids: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct grids, and which of them each grid is."""
    first, kinds = distinct_rows(grids.flatten(1).numpy())
    return grids[torch.from_numpy(first)], torch.from_numpy(kinds)


class MinigridAgent(nn.Module):
    """Three 3x3 convolutions over the grid, then separate policy and value heads."""

    def __init__(self, observation_shape: tuple[int, ...], num_actions: int) -> None:
        super().__init__()
        height, width, channels = observation_shape
        self.trunk = _Trunk(
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
        if obs.device.type == "cpu":
            return self._judge_each_once(obs)
        hidden = self.trunk(obs)
        return self.actor(hidden), self.critic(hidden).flatten()

    @torch.compiler.disable
    def _judge_each_once(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        grids, kinds = _distinct(obs)
        hidden = self.trunk(grids)
        logits, values = self.actor(hidden), self.critic(hidden)
        return logits.index_select(0, kinds), values.index_select(0, kinds).flatten()

    def policy_network(self) -> nn.Module:
        """The part that acts: from observations to action logits."""
        return _Network(self.trunk, self.actor)

    def value_network(self) -> nn.Module:
        """The part that judges: from observations to one value a row."""
        return _Network(self.trunk, self.critic)
