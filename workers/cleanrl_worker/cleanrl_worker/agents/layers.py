"""The initialisation that on-policy algorithms rely on."""

from __future__ import annotations

import math

from torch import nn


def layer_init(layer: nn.Module, std: float = math.sqrt(2), bias: float = 0.0) -> nn.Module:
    """Orthogonal weights with gain ``std`` and a constant bias.

    Args:
        layer: a layer with a weight and a bias.
        std: the gain; the square root of two suits ReLU and Tanh.
        bias: the constant bias.

    Returns:
        The same layer.
    """
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, bias)
    return layer
