"""Pictures: bring to one form, shrink, tile, encode."""

import io
import math
from collections.abc import Sequence

import numpy as np

from mosaic.errors import BadFrameError
from mosaic.fastlane.frame import Frame, Pixels


def as_rgb(picture: object) -> Pixels:
    """Return a picture as height × width × 3 of 8 bits.

    Grey, single-channel, RGBA, channels-first and floating-point (0 to 1) pictures are
    understood. A picture that already has the right form is returned as it is.

    Raises:
        BadFrameError: It is no picture.
    """
    array = np.asarray(picture)
    if array.dtype == object or array.ndim not in (2, 3) or not array.size:
        raise BadFrameError(
            f"render() gave {type(picture).__name__} of shape {array.shape}; a picture has the "
            'shape height × width × 3, which render_mode="rgb_array" gives'
        )
    # Only when the last axis cannot be the colours: a picture that is three pixels high must not be
    # turned.
    if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3, 4):
        array = np.moveaxis(array, 0, 2)
    if array.ndim == 2:
        array = array[:, :, np.newaxis]
    if array.shape[2] == 1:
        array = np.broadcast_to(array, (*array.shape[:2], 3))
    elif array.shape[2] not in (3, 4):
        raise BadFrameError(f"a picture has 1, 3 or 4 channels, not {array.shape[2]}")
    if array.dtype != np.uint8:
        scale = 255.0 if np.issubdtype(array.dtype, np.floating) else 1
        array = np.clip(np.nan_to_num(array) * scale, 0, 255).astype(np.uint8)
    return array[:, :, :3]


def shrink(pixels: Pixels, max_dim: int) -> Pixels:
    """Return the picture scaled down so that neither side exceeds `max_dim`; 0 means as it is."""
    height, width = pixels.shape[:2]
    if max_dim <= 0 or max(height, width) <= max_dim:
        return pixels
    from PIL import Image

    scale = max_dim / max(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    image = Image.fromarray(np.ascontiguousarray(pixels))
    return np.asarray(image.resize(size, Image.Resampling.BOX))


def tile(pictures: Sequence[Pixels]) -> Pixels:
    """Return several pictures as one, row by row, in a grid as square as possible.

    Smaller pictures are centred in their cell on black.
    """
    if len(pictures) == 1:
        return pictures[0]
    columns = math.ceil(math.sqrt(len(pictures)))
    rows = math.ceil(len(pictures) / columns)
    cell_height = max(picture.shape[0] for picture in pictures)
    cell_width = max(picture.shape[1] for picture in pictures)
    board = np.zeros((rows * cell_height, columns * cell_width, 3), np.uint8)
    for number, picture in enumerate(pictures):
        height, width = picture.shape[:2]
        top = number // columns * cell_height + (cell_height - height) // 2
        left = number % columns * cell_width + (cell_width - width) // 2
        board[top : top + height, left : left + width] = picture
    return board


def compose(frames: Sequence[Frame]) -> Frame:
    """Return the frames of several lanes as one frame.

    Rewards and returns are averaged; rates and steps are summed over processes, since every
    lane of a process carries the numbers of the whole process.
    """
    if len(frames) == 1:
        return frames[0]
    by_process: dict[int, tuple[float, int]] = {}
    for frame in frames:
        rate, step = by_process.get(frame.writer_pid, (0.0, 0))
        by_process[frame.writer_pid] = max(rate, frame.step_rate_hz), max(step, frame.step)
    return Frame(
        sequence=sum(frame.sequence for frame in frames),
        pixels=tile([frame.pixels for frame in frames]),
        last_reward=_mean([frame.last_reward for frame in frames]),
        rolling_return=_mean([frame.rolling_return for frame in frames]),
        step_rate_hz=sum(rate for rate, _ in by_process.values()),
        step=sum(step for _, step in by_process.values()),
        capped=any(frame.capped for frame in frames),
        writer_pid=frames[0].writer_pid,
    )


def encode_jpeg(pixels: Pixels, quality: int = 80, max_dim: int = 0) -> bytes:
    """Return the picture as JPEG, scaled down to `max_dim` (0: as it is).

    Args:
        pixels: Height × width × 3.
        quality: 1 (small) to 95 (good); other values are brought into this range.
        max_dim: Largest side in pixels.
    """
    from PIL import Image

    image = Image.fromarray(np.ascontiguousarray(shrink(pixels, max_dim)))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=min(95, max(1, quality)))
    return buffer.getvalue()


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan
