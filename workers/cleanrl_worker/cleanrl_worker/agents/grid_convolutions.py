"""Convolutions of small grids that compute equal neighbourhoods once.

Grids repeat themselves. A minibatch of 128 views of a room holds three kinds of cells, a hundred
different 3 x 3 neighbourhoods and a few hundred different 5 x 5 ones, at 6,272 positions. Equal
neighbourhoods have equal features, and a convolution is a sum over the nine neighbours. So each
layer multiplies the features of each distinct neighbourhood by the nine taps of its weight, once,
and then only adds up nine rows at each position. The result is that of the convolutions, in a
small part of their multiplications.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn.functional import embedding_bag

_TAPS = 9


def distinct_rows(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the distinct rows of an array of whole numbers.

    Args:
        keys: numbers, `(rows, columns)`.

    Returns:
        The position of one row of each kind, and the kind of each row.
    """
    sums = keys.astype(np.uint64) @ _odd_numbers(keys.shape[1])
    order = sums.argsort()
    ordered = sums[order]
    is_new = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    kinds = np.empty(len(keys), np.int64)
    kinds[order] = np.cumsum(is_new) - 1
    return order[is_new], kinds


@functools.cache
def _odd_numbers(count: int) -> np.ndarray:
    """Weights of a sum that tells rows apart.

    The sum has 64 bits: among ten thousand different rows, two have the same one once in
    a hundred thousand million times.
    """
    return np.random.default_rng(count).integers(2**63, size=count, dtype=np.uint64) * 2 + 1


def convolve(grids: Tensor, convolutions: Sequence[nn.Conv2d]) -> Tensor:
    """Apply 3 x 3 convolutions with padding, each followed by ReLU.

    Args:
        grids: bytes on the CPU, `(batch, height, width, channels)`.
        convolutions: the layers.

    Returns:
        The features of each cell, `(batch, height, width, channels of the last layer)`.
    """
    cells = grids.flatten(0, 2).numpy()
    first, kinds = distinct_rows(cells)
    table = torch.from_numpy(cells[first].astype(np.float32))
    shape = tuple(grids.shape[:3])
    for layer in convolutions[:-1]:
        neighbours = _neighbours(kinds.reshape(shape), len(table))
        first, kinds = distinct_rows(neighbours)
        table = _Layer.apply(table, layer.weight, layer.bias, neighbours[first])
    layer = convolutions[-1]
    neighbours = _neighbours(kinds.reshape(shape), len(table))
    return _Layer.apply(table, layer.weight, layer.bias, neighbours).view(*shape, -1)


def _neighbours(kinds: np.ndarray, outside: int) -> np.ndarray:
    """The kinds of the nine cells around each position, `(positions, 9)`."""
    grids, height, width = kinds.shape
    cells = np.full((grids, height * width + 1), outside)
    cells[:, :-1] = kinds.reshape(grids, -1)
    return cells.take(_around(height, width), axis=1).reshape(-1, _TAPS)


@functools.cache
def _around(height: int, width: int) -> np.ndarray:
    """The numbers of the nine cells around each cell; what lies outside has the last one."""
    numbers = np.full((height + 2, width + 2), height * width)
    numbers[1:-1, 1:-1] = np.arange(height * width).reshape(height, width)
    windows = np.lib.stride_tricks.sliding_window_view(numbers, (3, 3))
    return windows.reshape(height * width, _TAPS)


class _Layer(torch.autograd.Function):
    """From the features of distinct neighbourhoods to those of the next larger ones."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, table: Tensor, weight: Tensor, bias: Tensor, neighbours: np.ndarray
    ) -> Tensor:
        rows, (outputs, inputs) = len(table), weight.shape[:2]
        taps = weight.permute(1, 2, 3, 0).reshape(inputs, _TAPS * outputs)
        # One product for each kind and tap, and zeros for what lies outside the grid.
        products = torch.empty(rows + 1, _TAPS * outputs)
        torch.mm(table, taps, out=products[:rows])
        products[rows] = 0.0
        places = neighbours * _TAPS + np.arange(_TAPS)
        features = embedding_bag(
            torch.from_numpy(places), products.view(-1, outputs), mode="sum"
        ).add_(bias)
        features.relu_()
        ctx.save_for_backward(table, taps, features)
        ctx.places = places
        return features

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None]:
        table, taps, features = ctx.saved_tensors
        grad = grad.contiguous() * (features > 0)
        outputs = grad.shape[1]
        bags, starts = _transposed(ctx.places, len(table) * _TAPS)
        grad_products = embedding_bag(bags, grad, starts, mode="sum").view(len(table), -1)
        grad_taps = (table.T @ grad_products).view(-1, 3, 3, outputs)
        grad_table = grad_products @ taps.T if ctx.needs_input_grad[0] else None
        return grad_table, grad_taps.permute(3, 0, 1, 2), grad.sum(0), None


def _transposed(places: np.ndarray, count: int) -> tuple[Tensor, Tensor]:
    """For each product, the positions it was added to: all in a row, and where each begins."""
    flat = places.ravel()
    # NumPy sorts short numbers by counting, several times faster than long ones.
    short = flat.astype(np.uint16) if count < 2**16 - _TAPS else flat
    order = short.argsort(kind="stable")
    sizes = np.bincount(flat, minlength=count)[:count]
    starts = np.cumsum(sizes) - sizes
    positions = order[: sizes.sum()] // _TAPS
    return torch.from_numpy(positions), torch.from_numpy(starts)
