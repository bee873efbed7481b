"""What turns the bytes of a picture into numbers."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ScaledPixels(nn.Module):
    """Bytes to numbers between 0 and 1, laid out so that convolutions run fastest."""

    def forward(self, frames: Tensor) -> Tensor:
        # Bytes are laid out again in a quarter of the time that numbers take.
        laid_out = frames.contiguous(memory_format=torch.channels_last)
        return laid_out.to(torch.float32).div_(255.0)
