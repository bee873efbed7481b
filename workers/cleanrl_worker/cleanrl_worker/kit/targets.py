"""Target networks: slow copies that learning aims at."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


def follow(target: nn.Module, source: nn.Module) -> Callable[[float], None]:
    """Make one network a copy of another that follows it.

    Args:
        target: starts equal to the source.
        source: the network that learns.

    Returns:
        A function that moves the target towards the source by the share ``tau``
        (Polyak averaging; 1 copies it).
    """
    target.load_state_dict(source.state_dict())
    target.requires_grad_(False)
    behind: list[torch.Tensor] = list(target.parameters())
    ahead: list[torch.Tensor] = list(source.parameters())

    @torch.no_grad()
    def update(tau: float) -> None:
        torch._foreach_lerp_(behind, ahead, tau)

    return update
