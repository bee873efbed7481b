"""Live frames of a run through shared memory: one writer a lane, any number of readers.

Names are loaded when they are used: a daemon that only sweeps leftovers needs no NumPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from mosaic.errors import (
    BadFrameError,
    FastLaneError,
    LaneTakenError,
    NoFramesError,
    NoRoomForFramesError,
)
from mosaic.fastlane.ownership import sweep_leftovers

if TYPE_CHECKING:
    from mosaic.fastlane.frame import Frame, FrameMetrics, Pixels
    from mosaic.fastlane.pixels import as_rgb, encode_jpeg, shrink, tile
    from mosaic.fastlane.reader import FrameReader
    from mosaic.fastlane.settings import Settings, untapped
    from mosaic.fastlane.tap import FrameTap
    from mosaic.fastlane.writer import LaneWriter

__all__ = [
    "BadFrameError",
    "FastLaneError",
    "Frame",
    "FrameMetrics",
    "FrameReader",
    "FrameTap",
    "LaneTakenError",
    "LaneWriter",
    "NoFramesError",
    "NoRoomForFramesError",
    "Pixels",
    "Settings",
    "as_rgb",
    "encode_jpeg",
    "shrink",
    "sweep_leftovers",
    "tile",
    "untapped",
]

_HOMES = {
    "Frame": "frame",
    "FrameMetrics": "frame",
    "FrameReader": "reader",
    "FrameTap": "tap",
    "LaneWriter": "writer",
    "Pixels": "frame",
    "Settings": "settings",
    "as_rgb": "pixels",
    "encode_jpeg": "pixels",
    "shrink": "pixels",
    "tile": "pixels",
    "untapped": "settings",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
