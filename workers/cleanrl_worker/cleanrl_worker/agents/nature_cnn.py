"""The convolutional trunk of Mnih et al. (2015) for stacks of 84 x 84 frames."""

from __future__ import annotations

import torch
from torch import nn

from cleanrl_worker.agents.layers import layer_init
from cleanrl_worker.agents.pixels import ScaledPixels


def nature_cnn(channels: int = 4, *, orthogonal: bool = True, outputs: int = 512) -> nn.Sequential:
    """Three convolutions and a hidden layer.

    Args:
        channels: the number of stacked frames.
        orthogonal: initialise as PPO does; otherwise torch's default, as DQN does.
        outputs: the width of the hidden layer.

    Returns:
        The trunk, from bytes to ``outputs`` features.
    """
    init = layer_init if orthogonal else _untouched
    trunk = nn.Sequential(
        ScaledPixels(),
        init(nn.Conv2d(channels, 32, 8, stride=4)),
        nn.ReLU(),
        init(nn.Conv2d(32, 64, 4, stride=2)),
        nn.ReLU(),
        init(nn.Conv2d(64, 64, 3, stride=1)),
        nn.ReLU(),
        nn.Flatten(),
        init(nn.Linear(64 * 7 * 7, outputs)),
        nn.ReLU(),
    )
    return trunk.to(memory_format=torch.channels_last)


def _untouched(layer: nn.Module) -> nn.Module:
    return layer
