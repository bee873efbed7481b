"""A frame and the numbers that travel with it."""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameMetrics:
    """The numbers that travel with a frame.

    Attributes:
        last_reward: Reward of the newest step; NaN when there was none.
        rolling_return: Exponentially smoothed episode return; NaN until an episode has ended.
        step_rate_hz: Environment steps a second of the writing process.
        step: Environment steps of the writing process so far.
        capped: The share of time allowed for rendering holds the frame rate down.
    """

    last_reward: float = math.nan
    rolling_return: float = math.nan
    step_rate_hz: float = 0.0
    step: int = 0
    capped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame(FrameMetrics):
    """One picture as a reader gets it.

    Attributes:
        sequence: Grows with every frame a reader returns.
        pixels: Height × width × 3, 8 bits each, red first; the reader's own copy.
        writer_pid: The process that rendered it.
    """

    sequence: int
    pixels: Pixels = field(repr=False)
    writer_pid: int = 0

    @property
    def width(self) -> int:
        """Width in pixels."""
        return int(self.pixels.shape[1])

    @property
    def height(self) -> int:
        """Height in pixels."""
        return int(self.pixels.shape[0])
