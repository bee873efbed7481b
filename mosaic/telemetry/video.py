"""A replayed episode as an MP4 file."""

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mosaic.errors import NoPicturesError, VideoToolMissingError
from mosaic.telemetry.replay import ReplayStep, picture_of


def write_video(steps: Iterable[ReplayStep], path: Path, fps: float = 10.0) -> int:
    """Encode the frames of an episode; returns how many were written.

    Raises:
        NoPicturesError: No step has a frame or a grid.
        VideoToolMissingError: imageio-ffmpeg or Pillow is missing.
    """
    try:
        import imageio_ffmpeg
        import numpy as np
        from PIL import Image
    except ImportError as error:
        raise VideoToolMissingError(
            f"writing a video needs {error.name}: pip install imageio-ffmpeg pillow"
        ) from error
    pictures = [picture for step in steps if (picture := picture_of(step))]
    if not pictures:
        raise NoPicturesError(
            "this episode has no frames: record with frames on, or replay it as a table"
        )
    images = [Image.open(io.BytesIO(picture)).convert("RGB") for picture in pictures]
    first = images[0].size
    size = first[0] + first[0] % 2, first[1] + first[1] % 2  # the encoder wants even sides
    writer: Any = imageio_ffmpeg.write_frames(
        str(path), size, fps=fps, macro_block_size=1, ffmpeg_log_level="error"
    )
    writer.send(None)
    try:
        for image in images:
            canvas = Image.new("RGB", size)
            canvas.paste(image if image.size == first else image.resize(first))
            writer.send(np.ascontiguousarray(canvas))
    finally:
        writer.close()
    return len(images)
