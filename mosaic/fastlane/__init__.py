"""Live frames of a run through shared memory: one writer a lane, any number of readers."""

from mosaic.fastlane.errors import (
    BadFrameError,
    FastLaneError,
    LaneTakenError,
    NoFramesError,
    NoRoomForFramesError,
)
from mosaic.fastlane.frame import Frame, FrameMetrics, Pixels
from mosaic.fastlane.images import as_rgb, encode_jpeg, shrink, tile
from mosaic.fastlane.ownership import sweep_leftovers
from mosaic.fastlane.reader import FrameReader
from mosaic.fastlane.writer import LaneWriter

__all__ = [
    "BadFrameError",
    "FastLaneError",
    "Frame",
    "FrameMetrics",
    "FrameReader",
    "LaneTakenError",
    "LaneWriter",
    "NoFramesError",
    "NoRoomForFramesError",
    "Pixels",
    "as_rgb",
    "encode_jpeg",
    "shrink",
    "sweep_leftovers",
    "tile",
]
