"""Fast forward passes for acting.

On the CPU a tensor and a NumPy array can share memory. `numpy_forward` runs a small
network with NumPy over views of its own parameters: always current, never copied, and
several times quicker than torch for the few rows of a rollout step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import nn

from cleanrl_worker.kit.sampling import Random

Forward = Callable[[np.ndarray], np.ndarray]


def numpy_forward(network: nn.Module) -> Forward:
    """A function from an array of observations to the network's output as an array.

    Args:
        network: any module. Chains of Linear, Tanh and ReLU on the CPU run in NumPy; any
            other network runs in torch without gradients.

    Returns:
        The function. It follows the network's parameters as they are trained.
    """
    layers = list(network) if isinstance(network, nn.Sequential) else []
    on_cpu = all(parameter.device.type == "cpu" for parameter in network.parameters())
    if on_cpu and layers and all(isinstance(x, (nn.Linear, nn.Tanh, nn.ReLU)) for x in layers):
        return _chain(layers)
    return _in_torch(network)


def _chain(layers: list[nn.Module]) -> Forward:
    steps: list[tuple[np.ndarray, np.ndarray] | Callable] = []

    def forward(rows: np.ndarray) -> np.ndarray:
        if not steps:
            # Bound late: an optimiser made in between may have moved the parameters.
            steps.extend(_step(layer) for layer in layers)
        for step in steps:
            if isinstance(step, tuple):
                rows = rows @ step[0]
                rows += step[1]
            else:
                rows = step(rows, out=rows)
        return rows

    return forward


def _step(layer: nn.Module) -> tuple[np.ndarray, np.ndarray] | Callable:
    if isinstance(layer, nn.Linear):
        return layer.weight.detach().numpy().T, layer.bias.detach().numpy()
    return np.tanh if isinstance(layer, nn.Tanh) else _relu


def _relu(rows: np.ndarray, out: np.ndarray) -> np.ndarray:
    return np.maximum(rows, 0.0, out=out)


def _in_torch(network: nn.Module) -> Forward:
    device = next(network.parameters()).device

    def forward(rows: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return network(torch.from_numpy(rows).to(device)).cpu().numpy()

    return forward


class Policy(Protocol):
    """What evaluation asks of a trained policy: actions for a batch of observations.

    A policy with memory also has ``reset(ended)``, which is called with the rows whose
    episode ended.
    """

    def __call__(self, obs: np.ndarray, rng: Random, deterministic: bool) -> np.ndarray: ...


def categorical_policy(network: nn.Module) -> Policy:
    """The policy of a network that gives action logits: the likeliest, or a sample."""
    forward = numpy_forward(network)

    def act(obs: np.ndarray, rng: Random, deterministic: bool) -> np.ndarray:
        logits = forward(obs)
        return logits.argmax(axis=-1) if deterministic else rng.categorical(logits)

    return act
