"""A run can be seen without a window: as GIF, as JPEG, and in the terminal."""

import io
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.frames import picture

from mosaic.fastlane import FrameMetrics, FrameReader, LaneWriter, as_rgb, encode_jpeg
from mosaic.fastlane.recorder import (
    NoFramesError,
    ansi_picture,
    caption,
    jpeg_frames,
    preview,
    record_gif,
)


@pytest.fixture
def show(run_id: str) -> Iterator[FrameReader]:
    """A reader of a run that publishes a frame every few milliseconds."""
    done = threading.Event()

    def publish() -> None:
        writer = LaneWriter(run_id)
        number = 0
        while not done.is_set():
            number += 1
            writer.publish(picture(40 * number), FrameMetrics(step=number, last_reward=0.5))
            time.sleep(0.005)
        writer.close()

    thread = threading.Thread(target=publish)
    thread.start()
    with FrameReader(run_id) as reader:
        yield reader
        done.set()
        thread.join()


def test_a_gif_shows_several_frames(show: FrameReader, tmp_path: Path) -> None:
    """`mosaic watch --frames out.gif` gives an animation of what happened."""
    path = tmp_path / "out.gif"
    recording = record_gif(show, path, seconds=1.0, max_fps=20, max_dim=30)
    with Image.open(path) as image:
        assert image.n_frames > 3
        assert image.size == (30, 20)
        shades = set()
        for number in range(image.n_frames):
            image.seek(number)
            shades.add(image.convert("RGB").getpixel((5, 5)))
    assert recording.frames > 3
    assert len(shades) > 1


def test_a_recording_without_frames_says_why(run_id: str, tmp_path: Path) -> None:
    """The error tells a run that has not started from one that cannot render."""
    with FrameReader(run_id) as reader:
        with pytest.raises(NoFramesError, match="has not offered any"):
            record_gif(reader, tmp_path / "out.gif", seconds=0.1)
        writer = LaneWriter(run_id)
        writer.notice("CoinWorld cannot be shown")
        with pytest.raises(NoFramesError, match="CoinWorld cannot be shown"):
            record_gif(reader, tmp_path / "out.gif", seconds=0.5)
        writer.close()
    assert not (tmp_path / "out.gif").exists()


def test_jpeg_frames_end_with_the_run(run_id: str) -> None:
    """A remote viewer's stream carries pictures and numbers, and ends when the run does."""
    writer = LaneWriter(run_id)
    writer.publish(picture(200, 100, 200), FrameMetrics(step=3))
    got = []
    with FrameReader(run_id) as reader:
        for frame, jpeg in jpeg_frames(reader, max_dim=50, quality=90):
            got.append((frame.step, Image.open(io.BytesIO(jpeg)).size))
            writer.close()
    assert got == [(3, (50, 25))]


def test_a_stream_can_be_stopped(show: FrameReader) -> None:
    """A viewer that goes away ends its stream although the run goes on."""
    seen: list[int] = []
    for frame, _ in jpeg_frames(show, stop=lambda: len(seen) >= 3):
        seen.append(frame.step)
    assert len(seen) == 3


def test_the_terminal_shows_pictures_in_place(show: FrameReader) -> None:
    """The preview draws over its last picture, with the numbers below."""
    terminal = io.StringIO()
    shown = preview(show, terminal, seconds=0.8, columns=30, rows=8)
    text = terminal.getvalue()
    assert shown >= 2
    assert text.count("\x1b[J") == shown - 1
    assert "reward 0.50" in text


def test_half_blocks_keep_colours_and_proportions() -> None:
    """Two pixels share a character, the upper one as its foreground."""
    pixels = np.zeros((4, 4, 3), np.uint8)
    pixels[:2] = (255, 0, 0)
    lines = ansi_picture(pixels, columns=4, rows=8).split("\n")
    assert len(lines) == 2
    assert all(line.count("▀") == 4 for line in lines)
    assert "38;2;255;0;0;48;2;255;0;0" in lines[0]
    assert "38;2;0;0;0;48;2;0;0;0" in lines[1]


def test_a_caption_says_what_is_unknown() -> None:
    """Numbers that do not exist yet are a dash, and the cap is explained."""
    text = caption(FrameMetrics(step=1000, step_rate_hz=250.0, capped=True))
    assert "step 1,000" in text
    assert "return –" in text
    assert "time share" in text


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        (np.zeros((8, 9), np.uint8), (8, 9, 3)),
        (np.zeros((8, 9, 1), np.uint8), (8, 9, 3)),
        (np.zeros((8, 9, 4), np.uint8), (8, 9, 3)),
        (np.zeros((3, 8, 9), np.uint8), (8, 9, 3)),
        (np.ones((8, 9, 3), np.float32), (8, 9, 3)),
    ],
)
def test_pictures_of_many_forms_are_understood(given: np.ndarray, shape: tuple[int, ...]) -> None:
    """Grey, transparent, channels-first and floating-point pictures all become frames."""
    pixels = as_rgb(given)
    assert pixels.shape == shape
    assert pixels.dtype == np.uint8
    assert pixels.max() == 255 * given.max()
    assert encode_jpeg(pixels)[:2] == b"\xff\xd8"
