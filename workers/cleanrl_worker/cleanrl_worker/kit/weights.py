"""Loads trained weights into a network, also those that another program saved."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn


def load_weights(network: nn.Module, saved: Mapping[str, Tensor]) -> None:
    """Give a network its trained weights.

    CleanRL's scripts have the same layers under other names (`fc1.weight` for
    `network.0.weight`). So where the names differ, tensors are taken in their order, as long as
    each has as many numbers in the same arrangement.

    Args:
        network: Gets the weights.
        saved: A state dict of such a network.

    Raises:
        RuntimeError: When the layers do not correspond.
    """
    wanted = network.state_dict()
    if wanted.keys() != saved.keys() and len(wanted) == len(saved):
        pairs = zip(wanted.items(), saved.values(), strict=True)
        if all(_sizes(own) == _sizes(other) for (_, own), other in pairs):
            tensors = zip(wanted.items(), saved.values(), strict=True)
            saved = {name: other.reshape(own.shape) for (name, own), other in tensors}
    network.load_state_dict(saved)


def _sizes(tensor: Tensor) -> list[int]:
    """The shape without the dimensions of one, which CleanRL's action scales have."""
    return [size for size in tensor.shape if size != 1]
