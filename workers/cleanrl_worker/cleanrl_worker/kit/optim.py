"""Adam and RAdam over one flat vector.

All parameters of the given networks become views into one vector, and so do their
gradients. Clipping and the step then are one pass over that vector, not a dozen small
operations for every parameter. Importing `torch.optim` (over a second) is avoided.
The networks stay ordinary modules.

All that changes from step to step is in tensors, the learning rate too, so that a step can be
compiled or recorded as a CUDA graph.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeVar

import torch
from torch import Tensor, nn

from cleanrl_worker.kit.types import StateDict

# The number of steps so far, as a number on the CPU and as a tensor where it is not fetched.
Steps = TypeVar("Steps", float, Tensor)


class Adam:
    """Adam (Kingma and Ba, 2015)."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.parameters = list(parameters)
        self.betas = betas
        self.eps = eps
        self._flat, self._grad = _flatten(self.parameters)
        self._mean = torch.zeros_like(self._flat)
        self._square = torch.zeros_like(self._flat)
        self._step = torch.zeros((), device=self._flat.device)
        # The fused step reads a double on the CPU and a float on the GPU.
        on_cpu = self._flat.device.type == "cpu"
        self._rate = torch.zeros(
            (), dtype=torch.float64 if on_cpu else torch.float32, device=self._flat.device
        )
        self.lr = lr

    @property
    def lr(self) -> float:
        """The learning rate; assign to it between steps."""
        return self._lr

    @lr.setter
    def lr(self, value: float) -> None:
        self._lr = value
        self._rate.fill_(value)

    @property
    def gradient(self) -> Tensor:
        """All gradients as one vector, in the parameters' order."""
        return self._grad

    def zero_grad(self) -> None:
        """Forget the gradients."""
        self._grad.zero_()

    @torch.no_grad()
    def clip_grad_norm_(self, max_norm: float) -> None:
        """Shorten the gradient of all parameters together to at most this norm.

        The same as `nn.utils.clip_grad_norm_` in three operations, because the gradient is one
        vector.
        """
        norm = torch.linalg.vector_norm(self._grad)
        self._grad.mul_((max_norm / (norm + 1e-6)).clamp_(max=1.0))

    @torch.no_grad()
    def step(self) -> None:
        """Take one step."""
        self._step += 1
        self._move()

    def _move(self) -> None:
        if torch.compiler.is_compiling():
            self._move_in_parts()
            return
        torch._fused_adam_(
            [self._flat],
            [self._grad],
            [self._mean],
            [self._square],
            [],
            [self._step],
            lr=self._rate,
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=0.0,
            eps=self.eps,
            amsgrad=False,
            maximize=False,
        )

    def _move_in_parts(self) -> None:
        """The same in operations that torch can compile, which makes one pass of them again."""
        step = self._step.double()
        beta1, beta2 = self.betas
        self._mean.lerp_(self._grad, 1 - beta1)
        self._square.lerp_(self._grad.square(), 1 - beta2)
        spread = (self._square / (1 - beta2**step)).sqrt() + self.eps
        self._flat.sub_(self._rate / (1 - beta1**step) * self._mean / spread)

    def state_dict(self) -> StateDict:
        """The moments and the number of steps taken."""
        return {"mean": self._mean, "square": self._square, "step": self._step}

    def load_state_dict(self, state: StateDict) -> None:
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
        if self._flat.device.type == "cpu" and not torch.compiler.is_compiling():
            self._move_by_numbers(self._step.item())
        else:
            self._move_by_tensors(self._step.double())

    def _move_by_numbers(self, step: float) -> None:
        size = self.lr / (1 - self.betas[0] ** step)
        length, ratio = self._rectification(step)
        if length <= 5:
            self._flat.add_(self._mean, alpha=-size)
            return
        spread = self._square.sqrt().add_(self.eps).div_(math.sqrt(1 - self.betas[1] ** step))
        self._flat.addcdiv_(self._mean, spread, value=-size * math.sqrt(ratio))

    def _move_by_tensors(self, step: Tensor) -> None:
        """The same without asking for the number of steps, which would wait for the GPU."""
        size = self._rate / (1 - self.betas[0] ** step)
        length, ratio = self._rectification(step)
        spread = self._square.sqrt().add_(self.eps).div_((1 - self.betas[1] ** step).sqrt())
        moves = torch.where(length <= 5, size, size * ratio.sqrt() / spread)
        self._flat.sub_(moves * self._mean)

    def _rectification(self, step: Steps) -> tuple[Steps, Steps]:
        """How many gradients the variance rests on, and the square of what that corrects."""
        beta2 = self.betas[1]
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / (1 - beta2**step)
        ratio = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
        return length, ratio


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
