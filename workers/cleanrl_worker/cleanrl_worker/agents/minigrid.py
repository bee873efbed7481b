"""The agent for MiniGrid and BabyAI grids: a small convolutional trunk with two heads."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from cleanrl_worker.agents.grid_convolutions import convolve, distinct_rows
from cleanrl_worker.kit.types import Batch

# Below this torch's own convolutions are quicker.
_FEW_GRIDS = 12
# A head that remembers as many starts over; an evaluation may be endless.
_MANY_GRIDS = 100_000


def layer_init(layer: nn.Module, std: float = math.sqrt(2), bias: float = 0.0) -> nn.Module:
    """Orthogonal weights with gain `std` and a constant bias."""
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, bias)
    return layer


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


class _Head(nn.Sequential):
    """The policy or the value on top of the trunk.

    Given what the trunk made of grids it is a part of the network that learns. Given arrays of
    grids it answers with arrays, to act on; a grid that came up before is answered from memory
    for as long as the networks stay the same.
    """

    def __init__(self, trunk: _Trunk, outputs: int, std: float) -> None:
        super().__init__(
            layer_init(nn.Linear(128, 128)),
            nn.ReLU(),
            layer_init(nn.Linear(128, outputs), std=std),
        )
        # In a tuple, because a module's module would be saved with it, and the agent saves it.
        self._trunk = (trunk,)
        self.known: dict[bytes, np.ndarray] = {}

    def forward(self, rows: Tensor | np.ndarray) -> Tensor | np.ndarray:
        if not isinstance(rows, np.ndarray):
            return super().forward(rows)
        keys = [grid.tobytes() for grid in rows]
        new = {key: index for index, key in enumerate(keys) if key not in self.known}
        if new:
            if len(self.known) > _MANY_GRIDS:
                self.known.clear()
                return self(rows)
            answers = self._judge(torch.from_numpy(rows[list(new.values())]))
            self.known.update(zip(new, answers, strict=True))
        return np.array([self.known[key] for key in keys])

    @torch.no_grad()
    def _judge(self, grids: Tensor) -> np.ndarray:
        device = self[0].weight.device
        return super().forward(self._trunk[0](grids.to(device))).cpu().numpy()


class MinigridAgent(nn.Module):
    """Three 3x3 convolutions over the grid, then separate policy and value heads."""

    def __init__(self, envs: Batch) -> None:
        super().__init__()
        height, width, channels = envs.single_observation_space.shape
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
        self.actor = _Head(self.trunk, int(envs.single_action_space.n), std=0.01)
        self.critic = _Head(self.trunk, 1, std=1.0)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Action logits and state values, to learn from."""
        # The networks are about to change, so what they answered before is void.
        self.actor.known.clear()
        self.critic.known.clear()
        if obs.device.type == "cpu":
            if torch.compiler.is_compiling():
                # As a decorator this would import the compiler, most of a second, in every run.
                return torch.compiler.disable(self._judge_each_once)(obs)
            return self._judge_each_once(obs)
        hidden = self.trunk(obs)
        return self.actor(hidden), self.critic(hidden).flatten()

    def _judge_each_once(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        first, kinds = distinct_rows(obs.flatten(1).numpy())
        hidden = self.trunk(obs[torch.from_numpy(first)])
        each = torch.from_numpy(kinds)
        logits, values = self.actor(hidden), self.critic(hidden)
        return logits.index_select(0, each), values.index_select(0, each).flatten()
