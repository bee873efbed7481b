"""The residual convolutional trunk of Espeholt et al. (2018), known from IMPALA."""

from __future__ import annotations

from torch import Tensor, nn

from cleanrl_worker.agents.layers import layer_init
from cleanrl_worker.agents.pixels import ScaledPixels


class ResidualBlock(nn.Module):
    """Two convolutions that learn a change to what came in."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv0 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, maps: Tensor) -> Tensor:
        change = self.conv0(maps.relu())
        return maps + self.conv1(change.relu())


def conv_sequence(channels: int, outputs: int) -> nn.Sequential:
    """A convolution, a pooling that halves width and height, and two residual blocks."""
    return nn.Sequential(
        nn.Conv2d(channels, outputs, 3, padding=1),
        nn.MaxPool2d(3, stride=2, padding=1),
        ResidualBlock(outputs),
        ResidualBlock(outputs),
    )


def impala_cnn(
    observation_shape: tuple[int, ...], depths: tuple[int, ...] = (16, 32, 32), outputs: int = 256
) -> nn.Sequential:
    """The trunk, from bytes to ``outputs`` features.

    Args:
        observation_shape: channels, height and width.
        depths: the channels of each sequence.
        outputs: the width of the hidden layer.
    """
    channels, height, width = observation_shape
    sequences = []
    for depth in depths:
        sequences.append(conv_sequence(channels, depth))
        channels, height, width = depth, (height + 1) // 2, (width + 1) // 2
    return nn.Sequential(
        ScaledPixels(),
        *sequences,
        nn.Flatten(),
        nn.ReLU(),
        layer_init(nn.Linear(channels * height * width, outputs)),
        nn.ReLU(),
    )
