"""The agent for MiniGrid and BabyAI grids: a small convolutional trunk with two heads."""

from __future__ import annotations

import numpy as np
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


def _distinct(grids: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct grids, and which of them each grid is."""
    first, kinds = distinct_rows(grids.flatten(1).numpy())
    return grids[torch.from_numpy(first)], torch.from_numpy(kinds)


class MinigridAgent(nn.Module):
    """Three 3x3 convolutions over the grid, then separate policy and value heads.

    Like the agents in the algorithm files it takes tensors to learn from and arrays to act on.
    While the networks stay the same, a grid that came up before is answered from memory.
    """

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
        self._known: dict[bytes, np.ndarray] = {}

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Action logits and state values, to learn from."""
        # The networks are about to change, so what they answered before is void.
        self._known.clear()
        if obs.device.type == "cpu":
            return self._judge_each_once(obs)
        hidden = self.trunk(obs)
        return self.actor(hidden), self.critic(hidden).flatten()

    def logits(self, obs: np.ndarray) -> np.ndarray:
        """Action logits, to act on."""
        keys = [grid.tobytes() for grid in obs]
        new = [index for index, key in enumerate(keys) if key not in self._known]
        if new:
            answers = self._on_arrays(self.actor, obs[new])
            self._known.update(zip([keys[index] for index in new], answers, strict=True))
        return np.array([self._known[key] for key in keys])

    def value(self, obs: np.ndarray) -> np.ndarray:
        """State values, for the advantages."""
        return self._on_arrays(self.critic, obs).ravel()

    @torch.inference_mode()
    def _on_arrays(self, head: nn.Module, obs: np.ndarray) -> np.ndarray:
        grids = torch.from_numpy(obs)
        device = next(self.parameters()).device
        if device.type != "cpu":
            return head(self.trunk(grids.to(device))).cpu().numpy()
        grids, kinds = _distinct(grids)
        return head(self.trunk(grids)).index_select(0, kinds).numpy()

    @torch.compiler.disable
    def _judge_each_once(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        grids, kinds = _distinct(obs)
        hidden = self.trunk(grids)
        logits, values = self.actor(hidden), self.critic(hidden)
        return logits.index_select(0, kinds), values.index_select(0, kinds).flatten()
