"""Small networks side by side as one step of automatic differentiation.

`SideBySide` computes what calling the networks one after the other computes. For the small
Tanh networks of classic control most of the time goes into bookkeeping between layers and into
torch's tanh. Here all layers of all networks are one step, computed by NumPy in the tensors'
own memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


@dataclass(slots=True)
class _Layer:
    """One layer's parameters and gradients as arrays in the tensors' own memory."""

    weight: np.ndarray
    transposed: np.ndarray
    bias: np.ndarray
    weight_grad: np.ndarray
    bias_grad: np.ndarray


class SideBySide:
    """Applies several networks to the same rows.

    On the CPU ``backward`` adds the gradients straight to the parameters' ``grad``; use it with
    ``loss.backward()``, not with ``torch.autograd.grad``.

    Args:
        networks: chains of Linear layers with Tanh between them.
    """

    def __init__(self, *networks: nn.Sequential) -> None:
        self._networks = networks
        self._linear = [[item for item in net if isinstance(item, nn.Linear)] for net in networks]
        self._anchor = self._linear[0][0].weight
        self._bound_to = (0, 0)
        self._chains: list[list[_Layer]] = []

    def __call__(self, rows: Tensor) -> tuple[Tensor, ...]:
        """The output of each network; the rows themselves get no gradient."""
        if rows.device.type != "cpu" or not torch.is_grad_enabled():
            return tuple(network(rows) for network in self._networks)
        self._bind()
        return _Step.apply(rows, self._chains, self._anchor)

    def _bind(self) -> None:
        """Find the parameters' memory again when an optimiser has moved them."""
        gradient = self._anchor.grad
        place = (self._anchor.data_ptr(), 0 if gradient is None else gradient.data_ptr())
        if place != self._bound_to or gradient is None:
            self._chains = [[_arrays(layer) for layer in chain] for chain in self._linear]
            self._bound_to = (self._anchor.data_ptr(), self._anchor.grad.data_ptr())


def _arrays(layer: nn.Linear) -> _Layer:
    for parameter in (layer.weight, layer.bias):
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    weight = layer.weight.detach().numpy()
    return _Layer(
        weight,
        weight.T,
        layer.bias.detach().numpy(),
        layer.weight.grad.numpy(),
        layer.bias.grad.numpy(),
    )


class _Step(torch.autograd.Function):
    """The last argument ties the step into the graph; gradients bypass it."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, chains: list[list[_Layer]], anchor: Tensor
    ) -> tuple[Tensor, ...]:
        outputs = []
        ctx.steps = []
        for chain in chains:
            hidden = rows.numpy()
            inputs: list[np.ndarray] = []
            for layer in chain:
                if inputs:
                    np.tanh(hidden, out=hidden)
                inputs.append(hidden)
                hidden = hidden @ layer.transposed
                hidden += layer.bias
            ctx.steps.append((chain, inputs))
            outputs.append(torch.from_numpy(hidden))
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[None, None, None]:
        for (chain, inputs), grad_output in zip(ctx.steps, grad_outputs, strict=True):
            grad = grad_output.numpy()
            for position in range(len(chain) - 1, -1, -1):
                layer, values = chain[position], inputs[position]
                layer.bias_grad += grad.sum(axis=0)
                layer.weight_grad += grad.T @ values
                if position > 0:
                    slope = values * values
                    np.subtract(1.0, slope, out=slope)
                    grad = grad @ layer.weight
                    grad *= slope
        return None, None, None
