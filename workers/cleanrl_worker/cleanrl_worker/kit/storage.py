"""Rollout storage that the loop fills on the host and the update reads on the device."""

from __future__ import annotations

import torch
from torch import Tensor


class Stored:
    """An array for the loop and the same numbers as a tensor on the device.

    On the CPU both are one memory. For a GPU the array lies in pinned memory, from where a copy
    neither waits nor is copied twice; do not write a row again before the device has read it,
    which waiting for any later result makes sure of.

    Args:
        shape: the array's shape.
        dtype: its type, as torch names it.
        device: where the tensor is.
    """

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> None:
        self._host = torch.zeros(shape, dtype=dtype, pin_memory=device.type == "cuda")
        self.array = self._host.numpy()
        self.tensor = self._host.to(device)

    def send(self, row: int | slice = slice(None)) -> Tensor:
        """Bring a row, or all of them, to the device; gives the tensor there."""
        target = self.tensor[row]
        if self.tensor is not self._host:
            target.copy_(self._host[row], non_blocking=True)
        return target
