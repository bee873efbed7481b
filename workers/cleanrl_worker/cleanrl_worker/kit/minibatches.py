"""Cutting a batch into shuffled minibatches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor


def minibatches(rng: np.random.Generator, size: int, *batch: Tensor) -> Iterator[list[Tensor]]:
    """Shuffle all tensors of a batch together and yield slices of ``size`` rows.

    Args:
        rng: shuffles.
        size: rows of a minibatch.
        batch: tensors with the same number of rows.
    """
    order = torch.from_numpy(rng.permutation(len(batch[0]))).to(batch[0].device)
    shuffled = [tensor[order] for tensor in batch]
    for start in range(0, len(order), size):
        yield [tensor[start : start + size] for tensor in shuffled]
