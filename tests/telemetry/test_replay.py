"""What replay gives back, also for records without pictures or with strange texts."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mosaic.errors import NoPicturesError, NotRecordedError
from mosaic.telemetry.png import CELL, draw_grid, encode_png
from mosaic.telemetry.replay import picture_of, read_episode, replay
from mosaic.telemetry.video import write_video
from mosaic.wire import trainer_pb2 as pb


def test_a_frame_is_encoded_without_loss() -> None:
    """Every pixel of a frame comes back from its PNG, whatever its size."""
    random = np.random.default_rng(1)
    for height, width in ((1, 1), (7, 13), (64, 48)):
        pixels = random.integers(0, 256, (height, width, 3), dtype=np.uint8)
        decoded = np.asarray(Image.open(io.BytesIO(encode_png(pixels))))
        assert np.array_equal(decoded, pixels)


@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 4)])
def test_a_frame_of_the_wrong_shape_is_refused(shape: tuple[int, ...]) -> None:
    """The error says what a frame must look like."""
    with pytest.raises(ValueError, match="height, width, 3"):
        encode_png(np.zeros(shape, np.uint8))


def test_a_grid_in_the_info_becomes_a_picture() -> None:
    """A worker that sends no frames can still be watched: its text grid is drawn."""
    info = '{"grid": {"rows": ["SF", "HG"], "agent": [1, 1]}}'
    [step] = replay([pb.Step(info_json=info)])
    pixels = np.asarray(Image.open(io.BytesIO(picture_of(step))))
    assert pixels.shape == (2 * CELL, 2 * CELL, 3)
    assert np.array_equal(pixels, draw_grid(["SF", "HG"], (1, 1)))
    without = draw_grid(["SF", "HG"])
    assert np.array_equal(pixels[:CELL], without[:CELL])
    assert not np.array_equal(pixels[CELL:, CELL:], without[CELL:, CELL:])


def test_a_text_that_is_no_json_is_given_back_as_it_is() -> None:
    """One sloppy worker does not make its runs unreadable."""
    [step] = replay([pb.Step(observation_json="north {", action_json="", info_json="[1]")])
    assert step.observation == "north {"
    assert step.action is None
    assert step.info == {}


def test_an_episode_without_pictures_cannot_become_a_video(tmp_path: Path) -> None:
    """The refusal says what to do instead."""
    with pytest.raises(NoPicturesError, match="no frames"):
        write_video(replay([pb.Step(observation_json="1")]), tmp_path / "x.mp4")


def test_a_run_without_telemetry_says_so(tmp_path: Path) -> None:
    """Replaying a run of the other lane is a sentence, not a missing file."""
    with pytest.raises(NotRecordedError, match="has recorded no telemetry"):
        read_episode(tmp_path, 0)
