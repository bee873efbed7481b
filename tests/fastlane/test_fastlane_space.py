"""Shared memory is scarce: frames stay small, and a full or missing one stops nothing."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.frames import StartPython, picture, watch

from mosaic.fastlane import (
    FrameMetrics,
    FrameReader,
    LaneWriter,
    NoRoomForFramesError,
    sweep_leftovers,
)

FILLED_WRITER = """
import sys
import numpy as np
from mosaic.fastlane import FrameMetrics, LaneWriter
writer = LaneWriter(sys.argv[1], run_dir=sys.argv[2])
writer.publish(np.zeros((400, 600, 3), np.uint8), FrameMetrics())
print("written", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def small_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A real shared-memory file system of 64 MB, as containers have by default."""
    folder = tmp_path / "shm64"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a small file system needs root")
    monkeypatch.setenv("MOSAIC_FASTLANE_DIR", str(folder))
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Leave two of the 64 megabytes."""
    with (folder / "filler").open("wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, 62 * 1024 * 1024)


def used(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.iterdir())


def test_a_usual_frame_needs_less_than_8_megabytes(run_id: str, lane_folder: Path) -> None:
    """600 × 400 pixels take a few slots, not a hundred."""
    writer = LaneWriter(run_id)
    for _ in range(10):
        writer.publish(picture(1, 400, 600), FrameMetrics())
    assert used(lane_folder) < 8_000_000
    writer.close()


def test_larger_frames_move_to_a_larger_store(run_id: str, lane_folder: Path) -> None:
    """Frames may grow in the middle of a run; readers follow and the old store is gone."""
    writer = LaneWriter(run_id)
    with FrameReader(run_id) as reader:
        for side in (10, 100, 50, 300):
            writer.publish(picture(side, side, side), FrameMetrics(step=side))
            assert watch(reader).pixels.shape == (side, side, 3)
        assert len(list(lane_folder.iterdir())) == 2
        writer.close()


def test_a_grid_fits_into_64_megabytes(run_id: str, small_memory: Path) -> None:
    """Sixteen environments side by side leave room for others in a container's memory."""
    writers = [LaneWriter(run_id, lane) for lane in range(16)]
    for writer in writers:
        writer.publish(picture(1, 160, 160), FrameMetrics())
    assert used(small_memory) < 8_000_000
    for writer in writers:
        writer.close()


def test_a_full_shared_memory_moves_frames_to_the_run_directory(
    run_id: str, small_memory: Path, tmp_path: Path
) -> None:
    """When others have filled the shared memory, the run is still visible and nobody crashes."""
    fill(small_memory)
    run_dir = tmp_path / "run"
    writer = LaneWriter(run_id, run_dir=run_dir)
    with FrameReader(run_id, run_dir=run_dir) as reader:
        writer.publish(picture(9, 400, 600), FrameMetrics(step=9))
        assert watch(reader).step == 9
        assert len(list((run_dir / "fastlane").iterdir())) == 1
        assert sweep_leftovers(run_id, run_dir=run_dir) == 0, "it swept a living run"
        with FrameReader(run_id, run_dir=run_dir) as late:
            assert watch(late).step == 9
        writer.close()
    assert list((run_dir / "fastlane").iterdir()) == []
    (small_memory / "filler").unlink()


def test_frames_in_the_run_directory_are_swept_too(
    run_id: str, small_memory: Path, tmp_path: Path, start_python: StartPython
) -> None:
    """A killed run that had to use its directory leaves nothing there either."""
    fill(small_memory)
    run_dir = tmp_path / "run"
    child = start_python("-c", FILLED_WRITER, run_id, str(run_dir))
    assert child.line() == "written\n", child.complaints()
    child.kill()
    assert len(list((run_dir / "fastlane").iterdir())) == 1
    assert sweep_leftovers(run_id, run_dir=run_dir) == 2
    assert list((run_dir / "fastlane").iterdir()) == []
    (small_memory / "filler").unlink()


def test_without_shared_memory_the_run_directory_is_used(
    run_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine without /dev/shm shows frames all the same."""
    monkeypatch.setenv("MOSAIC_FASTLANE_DIR", "/proc/no-such-place")
    run_dir = tmp_path / "run"
    writer = LaneWriter(run_id, run_dir=run_dir)
    with FrameReader(run_id, run_dir=run_dir) as reader:
        writer.publish(picture(3), FrameMetrics(step=3))
        assert watch(reader).step == 3
        writer.close()


def test_no_room_anywhere_is_said_with_the_remedy(
    run_id: str, small_memory: Path, tmp_path: Path
) -> None:
    """The error names the folders, what is free there, and the setting that helps."""
    writer = LaneWriter(run_id, run_dir=small_memory)
    with pytest.raises(NoRoomForFramesError, match="ask for smaller frames"):
        writer.publish(picture(1, 4000, 4000), FrameMetrics())
    writer.publish(picture(1), FrameMetrics())
    writer.close()
