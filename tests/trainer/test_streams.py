"""What a run leaves behind, read through the daemon: curves and logs, live and afterwards."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.patience import PATIENCE_S
from support.trainer import Trainer, until

from mosaic.errors import MosaicError
from mosaic.runs import logs
from mosaic.runs.metric_writer import MetricWriter
from mosaic.runs.metrics import POINT, MetricReader


def test_a_curve_keeps_its_ends_and_extremes(trainer: Trainer) -> None:
    """A long curve is thinned to what was asked for without losing its peak or its newest point."""
    run_id = trainer.ended(trainer.submit("short")).run_id
    with MetricWriter(trainer.directory(run_id).path) as writer:
        for step in range(10_000):
            writer.add("charts/return", step, 99.0 if step == 4321 else 0.5, wall_time=1.0)
        writer.add("losses/value", 1, float("nan"), wall_time=1.0)
    (batch,) = trainer.client.metrics(run_id, tags=["charts/return"], max_points=100)
    assert (batch.steps[0], batch.steps[-1]) == (0, 9999)
    assert 99.0 in batch.values
    assert len(batch.steps) <= 102
    assert batch.total_points == 10_000
    whole = list(trainer.client.metrics(run_id))
    assert {batch.tag for batch in whole} == {"charts/return", "losses/value"}


def test_curves_of_a_worker_that_writes_none_are_there_afterwards(trainer: Trainer) -> None:
    """What a worker only says is kept by the daemon: each point once, over a daemon's death too."""
    run_id = trainer.stepping().run_id
    until(lambda: len(_curve(trainer, run_id)) > 2, "the curve grows while nobody watches")
    trainer.restart()
    before = len(_curve(trainer, run_id))
    until(lambda: len(_curve(trainer, run_id)) > before + 1, "it grows under the next daemon")
    trainer.client.cancel(run_id)
    newest = trainer.ended(run_id).progress.step
    curve = _curve(trainer, run_id)
    assert curve[-1] == newest
    assert curve == sorted(set(curve))
    said = {line["step"] for line in _metrics_lines(trainer, run_id)}
    assert said == set(curve)


def _curve(trainer: Trainer, run_id: str) -> list[int]:
    batches = trainer.client.metrics(run_id, tags=["value"])
    return [step for batch in batches for step in batch.steps]


def _hear_more(trainer: Trainer, run_id: str) -> None:
    """Wait until the daemon has read a `metrics` line that the worker has not said yet."""
    said = _metrics_lines(trainer, run_id)[-1]["step"]

    def heard() -> bool:
        return bool(trainer.client.get(run_id).progress.step > said)

    until(heard, "the daemon hears more of the worker")


def _metrics_lines(trainer: Trainer, run_id: str) -> list[dict[str, Any]]:
    lines = trainer.directory(run_id).stdout.read_text().splitlines()
    said = [json.loads(line) for line in lines if line.startswith('{"event":"metrics"')]
    return [line for line in said if "value" in line["values"]]


def test_a_worker_that_writes_its_own_curves_is_left_alone(trainer: Trainer) -> None:
    """The daemon stops at the moment a worker begins to write metric files itself."""
    run_id = trainer.stepping().run_id
    until(lambda: _curve(trainer, run_id), "the daemon writes")
    with MetricWriter(trainer.directory(run_id).path) as writer:
        writer.add("mine", 1, 1.0)
    # A line heard after the takeover: whatever the daemon was writing by then is on disk.
    _hear_more(trainer, run_id)
    before = _curve(trainer, run_id)
    _hear_more(trainer, run_id)
    trainer.restart()
    _hear_more(trainer, run_id)
    assert _curve(trainer, run_id) == before
    assert {batch.tag for batch in trainer.client.metrics(run_id)} == {"mine", "value"}


def test_a_live_curve_is_followed_to_its_end(trainer: Trainer) -> None:
    """A follower gets new points as they are written, and its stream ends with the run."""
    run_id = trainer.stepping().run_id
    writer = MetricWriter(trainer.directory(run_id).path)
    received: list[int] = []

    def follow() -> None:
        for batch in trainer.client.metrics(run_id, tags=["own"], follow=True):
            received.extend(batch.steps)

    follower = threading.Thread(target=follow)
    follower.start()
    for step in range(3):
        writer.add("own", step, 1.0)
        writer.flush()
        until(lambda step=step: step in received, "the point arrives")
    trainer.client.cancel(run_id)
    trainer.ended(run_id)
    follower.join(timeout=PATIENCE_S)
    assert not follower.is_alive()
    assert received == [0, 1, 2]


def test_a_half_written_point_is_not_read(tmp_path: Path) -> None:
    """A point that was cut by a crash is left out and written over by the next."""
    with MetricWriter(tmp_path) as writer:
        writer.add("a/b", 1, 1.0)
    (path,) = (tmp_path / "metrics").iterdir()
    with open(path, "ab") as handle:
        handle.write(b"half a point")
    assert MetricReader(tmp_path).read("a/b")["step"].tolist() == [1]
    with MetricWriter(tmp_path) as writer:
        writer.add("a/b", 2, 2.0)
    assert MetricReader(tmp_path).read("a/b")["step"].tolist() == [1, 2]


@pytest.mark.parametrize("count", [7, 100, 1001, 600_000])
def test_thinning_a_long_curve_keeps_what_stands_out(tmp_path: Path, count: int) -> None:
    """However long a curve is, its ends, its peak, its low and its gaps survive the thinning."""
    (tmp_path / "metrics").mkdir()
    points = np.zeros(count, POINT)
    points["step"] = np.arange(count)
    points["value"][[count // 3, count // 2]] = 9.0, -9.0
    points["value"][1] = np.nan
    points.tofile(tmp_path / "metrics" / "x.points")
    seen, shown = MetricReader(tmp_path).read_counted("x", max_points=60)
    assert seen == count
    assert len(shown) <= 62
    assert {0, count // 3, count // 2, count - 1} <= set(shown["step"].tolist())
    assert (np.diff(shown["step"]) > 0).all()


def test_tail_counts_the_lines_that_are_shown(tmp_path: Path) -> None:
    """The last lines of a log are the last that people see, however much lies between them."""
    path = tmp_path / "stdout.log"
    hidden = b'{"event":"metrics"}\n' * 30_000
    path.write_bytes(b"first\nsecond\n" + hidden + b"third\n" + hidden)
    offset = logs.tail_offset(path, 2, hidden=b'{"event":')
    assert logs.read_lines(path, offset).lines[0] == "second"
    assert logs.tail_offset(path, 9, hidden=b'{"event":') == 0
    assert logs.read_lines(path, logs.tail_offset(path, 1)).lines == ('{"event":"metrics"}',)


def test_a_wrong_pattern_is_refused(trainer: Trainer) -> None:
    """A search that is no regular expression is refused with what is wrong."""
    run_id = trainer.ended(trainer.submit("short")).run_id
    with pytest.raises(MosaicError, match="is not a regular expression"):
        list(trainer.client.logs(run_id, grep="("))


def test_f09_viewers_keep_no_one_else_waiting(trainer: Trainer) -> None:
    """However many watch frames or follow logs, other calls are answered and runs are taken in."""
    from mosaic.client.connection import read_token
    from mosaic.connect.channel import open_channel
    from mosaic.connect.endpoint import find_endpoint
    from mosaic.wire import trainer_pb2 as pb
    from mosaic.wire import trainer_pb2_grpc

    run_id = trainer.stepping().run_id
    pool = min(32, (os.cpu_count() or 1) + 4)
    told = (("authorization", f"Bearer {read_token(trainer.home).decode()}"),)
    with open_channel(find_endpoint(trainer.home).address) as channel:
        stub = trainer_pb2_grpc.TrainerStub(channel)
        viewers = []
        for _ in range(pool + 1):
            frames = pb.StreamFramesRequest(run_id=run_id)
            follow = pb.StreamRunLogsRequest(run_id=run_id, follow=True)
            viewers.append(stub.StreamFrames(frames, metadata=told))
            viewers.append(stub.StreamRunLogs(follow, metadata=told))
        for _ in range(3):
            other = trainer.submit("short")
            assert trainer.ended(other).outcome == "completed"
            assert {run_id, other} <= {run.run_id for run in trainer.client.list_runs()[0]}
        for viewer in viewers:
            viewer.cancel()
