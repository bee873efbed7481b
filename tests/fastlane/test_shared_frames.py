"""Frames between processes: whole, newest first, and nobody waits for anybody."""

import math
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.frames import Child, StartPython, picture, until, watch

from mosaic.fastlane import (
    BadFrameError,
    FrameMetrics,
    FrameReader,
    LaneTakenError,
    LaneWriter,
    sweep_leftovers,
)
from mosaic.fastlane.segment import READER_EXPIRES_NS

WRITER = """
import sys, time
import numpy as np
from mosaic.fastlane import FrameMetrics, LaneWriter
writer = LaneWriter(sys.argv[1])
print("writing", flush=True)
number = 0
while True:
    number += 1
    shade = np.full((40, 60, 3), number % 256, np.uint8)
    writer.publish(shade, FrameMetrics(step=number))
    time.sleep(0.002)
"""

# Each frame is of one shade, and its step says which: a mixture of two would be seen.
HAMMER = """
import sys
import numpy as np
from mosaic.fastlane import FrameMetrics, LaneWriter
writer = LaneWriter(sys.argv[1])
shades = [np.full((height, 200, 3), shade, np.uint8)
          for shade, height in enumerate([150, 10, 149, 60] * 60)]
shades.append(np.full((300, 300, 3), 240, np.uint8))
print("writing", flush=True)
number = 0
while True:
    number += 1
    shade = number % (240 if number < 2000 else 241)
    writer.publish(shades[shade], FrameMetrics(step=shade, last_reward=float(shade)))
"""

READER = """
import sys
from mosaic.fastlane import FrameReader
reader = FrameReader(sys.argv[1])
print("reading", flush=True)
while True:
    reader.wait(0.05)
"""


@pytest.fixture
def writer(run_id: str) -> Iterator[LaneWriter]:
    """A writer in this process."""
    opened = LaneWriter(run_id)
    yield opened
    opened.close()


@pytest.fixture
def reader(run_id: str) -> Iterator[FrameReader]:
    """A reader in this process."""
    with FrameReader(run_id) as opened:
        yield opened


def test_a_frame_arrives_as_it_was_sent(writer: LaneWriter, reader: FrameReader) -> None:
    """A reader gets exactly the pixels and numbers that were written, and each frame once."""
    pixels = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
    sent = FrameMetrics(
        last_reward=-1.5, rolling_return=12.25, step_rate_hz=321.0, step=987654321, capped=True
    )
    writer.publish(pixels, sent)
    frame = watch(reader)
    assert np.array_equal(frame.pixels, pixels)
    got = FrameMetrics(
        last_reward=frame.last_reward,
        rolling_return=frame.rolling_return,
        step_rate_hz=frame.step_rate_hz,
        step=frame.step,
        capped=frame.capped,
    )
    assert got == sent
    assert frame.writer_pid == os.getpid()
    assert reader.read() is None


def test_only_the_newest_frame_is_shown(writer: LaneWriter, reader: FrameReader) -> None:
    """A slow reader does not lag behind: it skips to what is newest."""
    for value in range(1, 11):
        writer.publish(picture(value), FrameMetrics(step=value))
    assert watch(reader).step == 10


def test_pictures_of_another_form_are_refused(writer: LaneWriter) -> None:
    """A wrong array is an error with the expected shape, not a broken picture."""
    for wrong in (np.zeros((4, 5), np.uint8), np.zeros((4, 5, 3)), np.zeros((0, 5, 3), np.uint8)):
        with pytest.raises(BadFrameError, match="height × width × 3"):
            writer.publish(wrong, FrameMetrics())


def test_a_reader_may_come_first(run_id: str, reader: FrameReader) -> None:
    """Opening a view before the run has started shows frames as soon as there are any."""
    assert reader.read() is None
    assert not reader.attached
    assert not reader.alive
    writer = LaneWriter(run_id)
    writer.publish(picture(7), FrameMetrics(step=7))
    assert watch(reader).step == 7
    assert reader.alive
    writer.close()
    until(lambda: not reader.alive)


def test_the_writer_knows_whether_somebody_watches(run_id: str, start_python: StartPython) -> None:
    """Rendering can stop soon after the last of several readers is gone, even if it was killed."""
    writer = LaneWriter(run_id)
    assert not writer.watched()
    readers = [start_python("-c", READER, run_id) for _ in range(2)]
    for child in readers:
        assert child.line() == "reading\n"
    until(writer.watched)
    readers[0].kill()
    died = time.monotonic_ns()
    # Watched as seen from a second after its death: only the other reader can have looked since.
    until(lambda: writer.watched(died + READER_EXPIRES_NS))
    readers[1].kill()
    until(lambda: not writer.watched())
    writer.publish(picture(1), FrameMetrics())
    writer.close()


def test_frames_are_never_torn(run_id: str, start_python: StartPython) -> None:
    """Whatever a writer does at full speed, sizes changing, readers only ever see whole frames."""
    hammer: Child = start_python("-c", HAMMER, run_id)
    assert hammer.line() == "writing\n"
    seen = set()
    with FrameReader(run_id) as first, FrameReader(run_id) as second:
        # Far more than a busy machine needs: the time only ends a test that would never end.
        give_up = time.monotonic() + 240
        count = 0
        while (count < 2000 or 240 not in seen) and time.monotonic() < give_up:
            for one in (first, second):
                frame = one.read()
                if frame is not None:
                    assert frame.pixels.min() == frame.pixels.max() == frame.step
                    assert frame.last_reward == frame.step
                    seen.add(frame.step)
                    count += 1
        assert count >= 2000
        assert 240 in seen, "frames that needed a larger store were never seen"
        hammer.kill()


def test_n12_a_killed_writer_is_noticed_and_replaced(
    run_id: str, start_python: StartPython, lane_folder: Path
) -> None:
    """After kill -9 the view says that the run is gone, keeps its last picture, and goes on
    when the run is started again; nothing stays behind."""
    first: Child = start_python("-c", WRITER, run_id)
    first.line()
    reader = FrameReader(run_id)
    last = watch(reader)
    assert reader.alive
    first.kill()
    until(lambda: not reader.alive)
    assert last.pixels.min() == last.pixels.max()
    assert list(lane_folder.iterdir()), "the killed writer left its files"

    second: Child = start_python("-c", WRITER, run_id)
    second.line()
    frame = watch(reader, lambda frame: frame.writer_pid == second.pid)
    assert frame.sequence > last.sequence
    assert reader.alive
    second.kill()
    until(lambda: not reader.alive)
    reader.close()
    assert list(lane_folder.iterdir()) == []


def test_n12_a_killed_reader_does_not_stop_the_writer(
    run_id: str, start_python: StartPython
) -> None:
    """A window that crashes, or stands still, costs the run nothing."""
    writer = LaneWriter(run_id)
    child: Child = start_python("-c", READER, run_id)
    child.line()
    for value in range(200):
        writer.publish(picture(value), FrameMetrics(step=value))
        if value == 50:
            child.process.send_signal(signal.SIGSTOP)
        if value == 100:
            child.kill()
    with FrameReader(run_id) as late:
        assert watch(late).step == 199
    writer.close()


def test_n12_leftovers_are_removed_and_only_they(
    run_id: str, start_python: StartPython, lane_folder: Path
) -> None:
    """Files of dead writers disappear at the daemon's start; live runs and other files stay."""
    dead: Child = start_python("-c", WRITER, run_id)
    dead.line()
    until(lambda: len(list(lane_folder.iterdir())) == 2)
    other = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    live = LaneWriter(other)
    live.publish(picture(1), FrameMetrics())
    stranger = lane_folder / f"mosaic-{os.geteuid()}-notes-1"
    stranger.touch()
    assert sweep_leftovers() == 0
    dead.kill()
    assert sweep_leftovers(other) == 0
    assert sweep_leftovers() == 2
    assert sorted(path.name for path in lane_folder.iterdir()) == sorted(
        [stranger.name, f"mosaic-{os.geteuid()}-{other}-0", f"mosaic-{os.geteuid()}-{other}-0.1"]
    )
    live.close()
    stranger.unlink()


def test_n12_a_reused_process_id_does_not_protect_leftovers(
    run_id: str, start_python: StartPython, lane_folder: Path
) -> None:
    """A dead writer's files go even when its process id now belongs to another program."""
    dead: Child = start_python("-c", WRITER, run_id)
    dead.line()
    until(lambda: len(list(lane_folder.iterdir())) == 2)
    dead.kill()
    control = lane_folder / f"mosaic-{os.geteuid()}-{run_id}-0"
    with control.open("r+b") as page:
        page.seek(16)
        page.write(os.getpid().to_bytes(8, "little"))
    with FrameReader(run_id) as reader:
        reader.read()
        assert reader.attached
        assert not reader.alive
    assert list(lane_folder.iterdir()) == []


def test_a_lane_has_one_writer(run_id: str, start_python: StartPython) -> None:
    """Two processes never write into each other's frames."""
    child: Child = start_python("-c", WRITER, run_id)
    child.line()
    with pytest.raises(LaneTakenError):
        LaneWriter(run_id)
    beside = LaneWriter(run_id, 1)
    beside.close()
    child.kill()
    LaneWriter(run_id).close()


def test_lanes_side_by_side_make_one_picture(run_id: str) -> None:
    """Several environments appear as tiles in the order of their lanes; numbers are combined."""
    writers = [LaneWriter(run_id, lane) for lane in range(3)]
    with FrameReader(run_id) as reader:
        for lane, writer in enumerate(writers):
            metrics = FrameMetrics(
                last_reward=[1.0, 3.0, math.nan][lane], step_rate_hz=50.0, step=100
            )
            writer.publish(picture(100 + lane, 10, 20), metrics)
        frame = watch(reader, lambda frame: frame.pixels.shape == (20, 40, 3))
        corners = [int(frame.pixels[row, column, 0]) for row in (0, 10) for column in (0, 20)]
        assert corners == [100, 101, 102, 0]
        assert (frame.last_reward, frame.step_rate_hz, frame.step) == (2.0, 50.0, 100)
        writers[2].close()
        writers[0].publish(picture(110, 10, 20), FrameMetrics())
        watch(reader, lambda frame: frame.pixels.shape == (10, 40, 3))
        for writer in writers[:2]:
            writer.close()


def test_a_link_in_place_of_the_shared_file_is_not_followed(
    run_id: str, lane_folder: Path, tmp_path: Path
) -> None:
    """Somebody who plants a link under the expected name cannot have another file overwritten."""
    precious = tmp_path / "precious"
    precious.write_bytes(b"x" * 8192)
    link = lane_folder / f"mosaic-{os.geteuid()}-{run_id}-0"
    link.symlink_to(precious)
    writer = LaneWriter(run_id, run_dir=tmp_path / "run")
    writer.publish(picture(1), FrameMetrics())
    assert precious.read_bytes() == b"x" * 8192
    writer.close()
    link.unlink()
