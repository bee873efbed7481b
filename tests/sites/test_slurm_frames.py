"""Live pictures from the node of a cluster, whose memory the daemon cannot read."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from support.slurm import SlurmCluster
from support.trainer import Trainer, until

from mosaic.fastlane.frame import FrameMetrics
from mosaic.fastlane.segment import DIRECTORY_VARIABLE
from mosaic.fastlane.writer import LaneWriter
from mosaic.runs.directory import read_json
from mosaic.system.processes import marked_processes

from .conftest import SETTINGS, MakeTrainer


@pytest.fixture
def memory(tmp_path: Path) -> dict[str, str]:
    """Lets a daemon look for pictures in a folder that no worker writes to."""
    folder = tmp_path / "memory"
    folder.mkdir()
    return {DIRECTORY_VARIABLE: str(folder)}


@pytest.fixture
def far_lab(
    shared_slurm: SlurmCluster, make_trainer: MakeTrainer, memory: dict[str, str]
) -> Trainer:
    """A daemon that finds no pictures in its own memory."""
    return make_trainer(**SETTINGS).start(**memory)


@contextmanager
def _rendering(run_id: str) -> Iterator[LaneWriter]:
    """Make pictures as the run does on its node: while someone looks."""
    lane, stop = LaneWriter(run_id), threading.Event()

    def render() -> None:
        while not stop.wait(0.02):
            if lane.watched():
                lane.publish(np.full((40, 60, 3), 200, np.uint8), FrameMetrics(last_reward=7.0))

    rendering = threading.Thread(target=render)
    rendering.start()
    try:
        yield lane
    finally:
        stop.set()
        rendering.join()
        lane.close()


def test_live_frames_come_from_a_node(far_lab: Trainer) -> None:
    """Watching begins and ends as on this machine, and leaves no process and no straggler."""
    record = far_lab.stepping()
    with _rendering(record.run_id) as lane:
        assert not lane.watched()
        frames = far_lab.client.frames(record.run_id, max_dim=30)
        first = next(frames)
        assert (first.width, first.height, first.last_reward) == (60, 40, 7.0)
        assert next(frames).sequence > first.sequence
        frames.close()
        until(lambda: not lane.watched(), "the run hears that no one watches")
        until(lambda: marked_processes(record.run_id) == [record.pid], "its sender has ended")
        # Again, and this time the run ends while it is watched.
        frames = far_lab.client.frames(record.run_id, max_dim=30)
        next(frames)
        far_lab.client.cancel(record.run_id)
        far_lab.ended(record.run_id)
        frames.close()
    assert not marked_processes(record.run_id)
    exited = read_json(far_lab.directory(record.run_id).exit) or {}
    assert exited["stragglers"] == 0


def test_viewer_comes_back_to_a_restarted_daemon(far_lab: Trainer, memory: dict[str, str]) -> None:
    """The sender of a daemon that was killed ends; the next daemon asks for pictures again."""
    record = far_lab.stepping()
    with _rendering(record.run_id):
        frames = far_lab.client.frames(record.run_id, max_dim=30)
        next(frames)
        far_lab.restart(**memory)
        frames = far_lab.client.frames(record.run_id, max_dim=30)
        next(frames)
        frames.close()
    far_lab.client.cancel(record.run_id)
    far_lab.ended(record.run_id)
    assert not marked_processes(record.run_id)
