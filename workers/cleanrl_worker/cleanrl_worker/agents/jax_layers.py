"""Layers for JAX, of which the algorithm files build their networks.

Parameters are plain dictionaries of arrays. `linear` and `relu` also take NumPy arrays and compute
them with NumPy, which for the few rows of an environment step is several times quicker than a call
into JAX.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cleanrl_worker.kit.jax_backend import Array, jax, jnp

if TYPE_CHECKING:
    from jax.nn.initializers import Initializer

Params = dict[str, "Array | Params"]
Layers = list[Params]

LECUN_WEIGHTS = jax.nn.initializers.lecun_normal()
# Weights within one over the square root of the inputs, a third of LeCun's variance: torch's rule.
TORCH_WEIGHTS = jax.nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")


def dense(
    key: Array,
    inputs: int,
    outputs: int,
    std: float | None = None,
    draw: Initializer = LECUN_WEIGHTS,
) -> Params:
    """Parameters of a linear layer.

    Args:
        key: the random key.
        inputs: how many numbers come in.
        outputs: how many go out.
        std: the gain of orthogonal weights, as PPO wants them.
        draw: how weights are drawn without a gain; biases are zero.
    """
    return _layer(key, (inputs, outputs), std, draw)


def conv(key: Array, size: int, inputs: int, outputs: int, std: float | None = None) -> Params:
    """Parameters of a convolution with square kernels; `std` as in `dense`."""
    return _layer(key, (size, size, inputs, outputs), std, LECUN_WEIGHTS)


def linear(layer: Params, rows: Array) -> Array:
    """Apply a linear layer."""
    return rows @ layer["kernel"] + layer["bias"]


def relu(rows: Array) -> Array:
    """Numbers above zero, and zero for the others."""
    return np.maximum(rows, 0.0) if isinstance(rows, np.ndarray) else jax.nn.relu(rows)


def convolve(layer: Params, maps: Array, stride: int = 1, padding: str = "VALID") -> Array:
    """Apply a convolution to maps laid out as `(batch, height, width, channels)`."""
    layout = ("NHWC", "HWIO", "NHWC")
    strides = (stride, stride)
    maps = jax.lax.conv_general_dilated(
        maps, layer["kernel"], strides, padding, dimension_numbers=layout
    )
    return maps + layer["bias"]


def unfolded_convolve(layer: Params, maps: Array, stride: int = 1) -> Array:
    """The same as a matrix product of patches, for kernels whose size the stride divides.

    On the CPU, XLA is ten times slower at the gradient of a convolution inside a loop than
    outside of one; matrix products do not suffer from that.
    """
    size, _, channels, outputs = layer["kernel"].shape
    size //= stride
    # Blocks of stride x stride pixels become channels, and the stride becomes 1.
    batch, height, width = maps.shape[0], maps.shape[1] // stride, maps.shape[2] // stride
    blocks = maps.reshape(batch, height, stride, width, stride, channels).transpose(
        0, 1, 3, 2, 4, 5
    )
    blocks = blocks.reshape(batch, height, width, stride * stride * channels)
    kernel = layer["kernel"].reshape(size, stride, size, stride, channels, outputs)
    kernel = kernel.transpose(0, 2, 1, 3, 4, 5).reshape(-1, outputs)
    height, width = height - size + 1, width - size + 1
    patches = jnp.concatenate(
        [blocks[:, i : i + height, j : j + width] for i in range(size) for j in range(size)],
        axis=-1,
    )
    maps = patches.reshape(batch * height * width, -1) @ kernel
    return maps.reshape(batch, height, width, outputs) + layer["bias"]


def max_pool(maps: Array) -> Array:
    """The largest number of each 3 x 3 window; halves height and width."""
    return jax.lax.reduce_window(maps, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


def scaled_pixels(frames: Array) -> Array:
    """Bytes `(batch, channels, height, width)` to numbers in 0 to 1, channels last."""
    return frames.transpose(0, 2, 3, 1).astype(jnp.float32) / 255.0


def _layer(key: Array, shape: tuple[int, ...], std: float | None, draw: Initializer) -> Params:
    draw = draw if std is None else jax.nn.initializers.orthogonal(std)
    return {"kernel": draw(key, shape), "bias": jnp.zeros(shape[-1])}
