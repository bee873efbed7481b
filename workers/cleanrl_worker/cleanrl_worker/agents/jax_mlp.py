"""Fully connected networks for JAX: parameters are plain lists of arrays."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from cleanrl_worker.kit.jax_backend import Array, jax, jnp

Layers = list[dict[str, Any]]


LECUN_WEIGHTS = jax.nn.initializers.lecun_normal()
# Weights within one over the square root of the inputs, a third of LeCun's variance: torch's rule.
TORCH_WEIGHTS = jax.nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")


def init_mlp(key: Array, sizes: tuple[int, ...], draw: Any = LECUN_WEIGHTS) -> Layers:
    """Parameters of a network with layers of these sizes, the inputs first.

    Args:
        key: the source of randomness.
        sizes: the number of inputs, then of outputs of each layer.
        draw: how weights are drawn; biases are zero. By LeCun's rule, with a variance of one
            over the number of inputs, unless told otherwise.
    """
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        {"kernel": draw(key, shape), "bias": jnp.zeros(shape[1])}
        for key, shape in zip(keys, pairwise(sizes), strict=True)
    ]


def mlp(layers: Layers, rows: Array) -> Array:
    """Apply the network, with ReLU between its layers.

    NumPy arrays are computed with NumPy, which for the few rows of an environment step is
    several times quicker than a call into JAX; everything else with JAX.
    """
    relu = _numpy_relu if isinstance(rows, np.ndarray) else jax.nn.relu
    for layer in layers[:-1]:
        rows = relu(rows @ layer["kernel"] + layer["bias"])
    return rows @ layers[-1]["kernel"] + layers[-1]["bias"]


def _numpy_relu(rows: np.ndarray) -> np.ndarray:
    return np.maximum(rows, 0.0)
