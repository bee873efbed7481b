"""Convolutional trunks for JAX: parameters are plain dictionaries and lists of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from cleanrl_worker.kit.jax_backend import Array, jax, jnp

Params = dict[str, Any]

# Kernel size, stride and channels of the three convolutions of Mnih et al. (2015).
_NATURE = ((8, 4, 32), (4, 2, 64), (3, 1, 64))


def dense(key: Array, inputs: int, outputs: int, std: float | None = None) -> Params:
    """Parameters of a linear layer.

    Args:
        key: the random key.
        inputs: how many numbers come in.
        outputs: how many go out.
        std: the gain of orthogonal weights, as PPO wants them; by default LeCun's rule.
    """
    return _layer(key, (inputs, outputs), std)


def conv(key: Array, size: int, inputs: int, outputs: int, std: float | None = None) -> Params:
    """Parameters of a convolution with square kernels; ``std`` as in `dense`."""
    return _layer(key, (size, size, inputs, outputs), std)


def linear(layer: Params, rows: Array) -> Array:
    """Apply a linear layer."""
    return rows @ layer["kernel"] + layer["bias"]


def convolve(layer: Params, maps: Array, stride: int = 1, padding: str = "VALID") -> Array:
    """Apply a convolution to maps laid out as ``(batch, height, width, channels)``."""
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


def scaled_pixels(frames: Array) -> Array:
    """Bytes ``(batch, channels, height, width)`` to numbers in 0 to 1, channels last."""
    return frames.transpose(0, 2, 3, 1).astype(jnp.float32) / 255.0


def init_nature_cnn(
    key: Array, channels: int = 4, *, outputs: int = 512, std: float | None = None
) -> Params:
    """Parameters of the trunk of Mnih et al. (2015) for 84 x 84 frames."""
    keys = jax.random.split(key, len(_NATURE) + 1)
    convs = []
    for one, (size, _, depth) in zip(keys, _NATURE, strict=False):
        convs.append(conv(one, size, channels, depth, std))
        channels = depth
    return {"convs": convs, "hidden": dense(keys[-1], 7 * 7 * channels, outputs, std)}


def nature_cnn(params: Params, frames: Array, convolve: Callable = convolve) -> Array:
    """From stacks of frames to features.

    Args:
        params: from `init_nature_cnn`.
        frames: bytes, ``(batch, channels, 84, 84)``.
        convolve: how to convolve; `unfolded_convolve` where gradients are taken in a loop.
    """
    maps = scaled_pixels(frames)
    for layer, (_, stride, _) in zip(params["convs"], _NATURE, strict=True):
        maps = jax.nn.relu(convolve(layer, maps, stride))
    return jax.nn.relu(linear(params["hidden"], maps.reshape(len(maps), -1)))


def init_impala_cnn(
    key: Array, shape: tuple[int, ...], depths: tuple[int, ...] = (16, 32, 32), outputs: int = 256
) -> Params:
    """Parameters of the residual trunk of Espeholt et al. (2018).

    Args:
        key: the random key.
        shape: channels, height and width of an observation.
        depths: the channels of each sequence.
        outputs: the number of features.
    """
    channels, height, width = shape
    keys = iter(jax.random.split(key, 5 * len(depths) + 1))
    sequences = []
    for depth in depths:
        entry = conv(next(keys), 3, channels, depth)
        blocks = [[conv(next(keys), 3, depth, depth) for _ in range(2)] for _ in range(2)]
        sequences.append({"entry": entry, "blocks": blocks})
        channels, height, width = depth, math.ceil(height / 2), math.ceil(width / 2)
    hidden = dense(next(keys), channels * height * width, outputs)
    return {"sequences": sequences, "hidden": hidden}


def impala_cnn(params: Params, frames: Array) -> Array:
    """From frames to features."""
    maps = scaled_pixels(frames)
    for sequence in params["sequences"]:
        maps = convolve(sequence["entry"], maps, padding="SAME")
        maps = jax.lax.reduce_window(
            maps, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"
        )
        for first, second in sequence["blocks"]:
            change = convolve(first, jax.nn.relu(maps), padding="SAME")
            maps = maps + convolve(second, jax.nn.relu(change), padding="SAME")
    rows = jax.nn.relu(maps.reshape(len(maps), -1))
    return jax.nn.relu(linear(params["hidden"], rows))


def _layer(key: Array, shape: tuple[int, ...], std: float | None) -> Params:
    initializers = jax.nn.initializers
    draw = initializers.lecun_normal() if std is None else initializers.orthogonal(std)
    return {"kernel": draw(key, shape), "bias": jnp.zeros(shape[-1])}
