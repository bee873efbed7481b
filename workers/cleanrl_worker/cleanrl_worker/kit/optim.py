"""Adam and RAdam over one flat vector.

All parameters of the given networks become views into one vector, and so do their
gradients. Clipping and the step then are one pass over that vector, not a dozen small
operations for every parameter. Importing ``torch.optim`` (over a second) is avoided.
The networks stay ordinary modules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn


class Adam:
    """Adam (Kingma and Ba, 2015), optionally with clipping of the gradient's norm."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        max_grad_norm: float | None = None,
    ) -> None:
        self.parameters = list(parameters)
        self.lr = lr
        self.betas = betas
        self.eps = eps
        self.max_grad_norm = max_grad_norm
        self._flat, self._grad = _flatten(self.parameters)
        self._mean = torch.zeros_like(self._flat)
        self._square = torch.zeros_like(self._flat)
        self._step = torch.zeros((), device=self._flat.device)

    @property
    def gradient(self) -> Tensor:
        """All gradients as one vector, in the parameters' order."""
        return self._grad

    def zero_grad(self) -> None:
        """Forget the gradients."""
        self._grad.zero_()

    @torch.no_grad()
    def step(self) -> None:
        """Clip the gradient when asked to, then take one step."""
        if self.max_grad_norm is not None:
            norm = torch.linalg.vector_norm(self._grad)
            self._grad.mul_((self.max_grad_norm / (norm + 1e-6)).clamp_(max=1.0))
        self._step += 1
        self._move()

    def _move(self) -> None:
        torch._fused_adam_(
            [self._flat],
            [self._grad],
            [self._mean],
            [self._square],
            [],
            [self._step],
            lr=self.lr,
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=0.0,
            eps=self.eps,
            amsgrad=False,
            maximize=False,
        )

    def state_dict(self) -> dict[str, Any]:
        """The moments and the number of steps taken."""
        return {"mean": self._mean, "square": self._square, "step": self._step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put the moments back."""
        self._mean.copy_(state["mean"])
        self._square.copy_(state["square"])
        self._step.copy_(state["step"])


class RAdam(Adam):
    """Rectified Adam (Liu et al., 2020): plain momentum until the variance can be trusted."""

    def _move(self) -> None:
        beta1, beta2 = self.betas
        self._mean.lerp_(self._grad, 1 - beta1)
        self._square.mul_(beta2).addcmul_(self._grad, self._grad, value=1 - beta2)
        step = self._step.item()
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / (1 - beta2**step)
        size = self.lr / (1 - beta1**step)
        if length <= 5:
            self._flat.add_(self._mean, alpha=-size)
            return
        rectified = math.sqrt(
            (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
        )
        spread = self._square.sqrt().add_(self.eps).div_(math.sqrt(1 - beta2**step))
        self._flat.addcdiv_(self._mean, spread, value=-size * rectified)


def _flatten(parameters: list[nn.Parameter]) -> tuple[Tensor, Tensor]:
    flat = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
    grad = torch.zeros_like(flat)
    start = 0
    for parameter in parameters:
        end = start + parameter.numel()
        parameter.data = flat[start:end].view_as(parameter)
        parameter.grad = grad[start:end].view_as(parameter)
        start = end
    return flat, grad
