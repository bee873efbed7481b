"""What can be made of a reader's frames without a window: JPEG stream, GIF, terminal picture."""

import time
from collections.abc import Callable, Iterator
from os import PathLike
from typing import NamedTuple, Protocol, TextIO

import numpy as np

from mosaic.errors import NoFramesError
from mosaic.fastlane.frame import Frame, FrameMetrics, Pixels
from mosaic.fastlane.pixels import encode_jpeg, shrink

_LONGEST_WAIT_S = 0.25


class FrameSource(Protocol):
    """Where frames come from: shared memory (`FrameReader`), or the daemon's connection."""

    @property
    def attached(self) -> bool:
        """Whether the run has offered frames."""

    @property
    def alive(self) -> bool:
        """Whether more may come."""

    @property
    def notice(self) -> str:
        """Why there are none, as far as it was said."""

    def wait(self, timeout: float) -> Frame | None:
        """The next new frame, or None when `timeout` seconds pass without one."""


class Recording(NamedTuple):
    """What was recorded: how many frames over how many seconds."""

    frames: int
    seconds: float


def new_frames(
    reader: FrameSource,
    *,
    seconds: float | None = None,
    max_fps: float = 30.0,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Frame]:
    """Yield the run's frames as they come.

    Args:
        reader: An open reader.
        seconds: How long; None means until the run's writer is gone or `stop` says so.
        max_fps: At most this many frames a second; the newest are kept.
        stop: Asked at least four times a second; True ends the iteration.

    Yields:
        New frames only.
    """
    started = time.monotonic()
    due = started
    while not stop():
        now = time.monotonic()
        left = _LONGEST_WAIT_S if seconds is None else started + seconds - now
        if left <= 0:
            return
        if now < due:
            time.sleep(min(due - now, left, _LONGEST_WAIT_S))
            continue
        frame = reader.wait(min(left, _LONGEST_WAIT_S))
        if frame is not None:
            # Keeps the beat, but after a pause makes up for one frame at most.
            due = max(due + 1.0 / max_fps, time.monotonic() - 1.0 / max_fps)
            yield frame
        elif seconds is None and reader.attached and not reader.alive:
            return


def jpeg_frames(
    reader: FrameSource,
    *,
    max_fps: float = 30.0,
    max_dim: int = 0,
    quality: int = 80,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[Frame, bytes]]:
    """Yield every new frame together with its JPEG, for viewers on another machine."""
    for frame in new_frames(reader, max_fps=max_fps, stop=stop):
        yield frame, encode_jpeg(frame.pixels, quality, max_dim)


def record_gif(
    reader: FrameSource,
    path: str | PathLike[str],
    *,
    seconds: float,
    max_fps: float = 15.0,
    max_dim: int = 320,
) -> Recording:
    """Collect frames for some seconds and write them as an animated GIF that plays in real time.

    Raises:
        NoFramesError: No frame came; the text says why as far as the run told.
    """
    from PIL import Image

    images, times = [], []
    for frame in new_frames(reader, seconds=seconds, max_fps=max_fps):
        images.append(Image.fromarray(shrink(frame.pixels, max_dim)))
        times.append(time.monotonic())
    if not images:
        raise NoFramesError(why_no_frames(reader, seconds))
    gaps = np.diff(times) if len(times) > 1 else np.array([1.0 / max_fps])
    # Browsers play frames shorter than 20 ms at a tenth of a second.
    durations = [max(20, round(1000 * gap)) for gap in [*gaps, float(np.median(gaps))]]
    images[0].save(
        path,
        "GIF",
        save_all=True,
        append_images=images[1:],
        duration=durations[: len(images)],
        loop=0,
    )
    return Recording(len(images), times[-1] - times[0])


def why_no_frames(reader: FrameSource, seconds: float) -> str:
    """Return one sentence saying why no frame came within so many seconds."""
    if not reader.attached:
        return (
            f"no frames within {seconds:g} s: the run has not offered any. It may not have "
            "started stepping yet, have ended, or run with fastlane_video_mode=off"
        )
    if reader.notice:
        return f"no frames within {seconds:g} s: {reader.notice}"
    if not reader.alive:
        return f"no frames within {seconds:g} s: the training process has ended"
    return (
        f"no frames within {seconds:g} s although the training process is alive: it is not "
        "stepping its environment, or rendering takes longer than its share of time allows"
    )


def ansi_picture(pixels: Pixels, columns: int = 80, rows: int = 24) -> str:
    """Return the picture as coloured half blocks that fit into a terminal.

    Each character shows two pixels, one above the other, so they come out square.
    """
    height, width = pixels.shape[:2]
    scale = min(columns / width, 2 * rows / height)
    across = max(1, round(width * scale))
    down = max(2, round(height * scale) // 2 * 2)
    small = _resize(pixels, across, down)
    lines = []
    for top, bottom in zip(small[0::2].tolist(), small[1::2].tolist(), strict=True):
        cells = [
            f"\x1b[38;2;{r};{g};{b};48;2;{br};{bg};{bb}m▀"
            for (r, g, b), (br, bg, bb) in zip(top, bottom, strict=True)
        ]
        lines.append("".join(cells) + "\x1b[0m")
    return "\n".join(lines)


def caption(metrics: FrameMetrics) -> str:
    """Return a frame's numbers as one short line."""

    def shown(value: float) -> str:
        return "–" if np.isnan(value) else f"{value:,.2f}"

    text = (
        f"step {metrics.step:,}  {metrics.step_rate_hz:,.0f} steps/s  "
        f"reward {shown(metrics.last_reward)}  return {shown(metrics.rolling_return)}"
    )
    return f"{text}  (frame rate held down by the time share)" if metrics.capped else text


def preview(
    reader: FrameSource,
    stream: TextIO,
    *,
    seconds: float | None = None,
    columns: int = 80,
    rows: int = 23,
    max_fps: float = 10.0,
) -> int:
    """Show a run in the terminal, each picture in place of the last one.

    Returns:
        How many pictures were shown.
    """
    count = 0
    lines = 0
    for frame in new_frames(reader, seconds=seconds, max_fps=max_fps):
        picture = ansi_picture(frame.pixels, columns, rows)
        # Back over the last picture instead of clearing: what was on the screen before stays.
        back = f"\x1b[{lines}F\x1b[J" if lines else ""
        stream.write(f"{back}{picture}\n{caption(frame)}\n")
        stream.flush()
        lines = picture.count("\n") + 2
        count += 1
    return count


def _resize(pixels: Pixels, width: int, height: int) -> Pixels:
    from PIL import Image

    image = Image.fromarray(np.ascontiguousarray(pixels))
    return np.asarray(image.resize((width, height), Image.Resampling.BOX))
