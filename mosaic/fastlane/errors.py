"""What can go wrong with shared frames."""

from mosaic.errors import MosaicError


class FastLaneError(MosaicError):
    """Base of everything raised by this package."""


class LaneTakenError(FastLaneError):
    """Another live process already writes this lane."""


class NoRoomForFramesError(FastLaneError):
    """Neither shared memory nor the run directory can hold the frames."""


class BadFrameError(FastLaneError):
    """A picture whose shape or type is not a frame."""


class NoFramesError(FastLaneError):
    """Nothing could be recorded because no frame came."""
