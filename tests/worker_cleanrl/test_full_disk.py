"""Row D1 of the fault matrix with a disk that is really full: a run goes on and loses little."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from support import harness
from support.patience import TIME_TO_SAVE
from support.tiny_disk import TinyDisk, tiny_disk
from support.trainer import Trainer, until

from mosaic.errors import StorageError
from mosaic.runs.metric_writer import MetricWriter
from mosaic.runs.metrics import MetricReader
from mosaic.telemetry.outbox import Outbox, Policy
from mosaic.telemetry.records import Kind
from mosaic.telemetry.spool import Spool
from mosaic.wire import trainer_pb2 as pb
from mosaic.workers.lifecycle import LifecycleEmitter, LifecycleLine, QuarantinedLine, parse_line

RUN_ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[TinyDisk]:
    """A disk of 64 MB; making one takes the rights of root."""
    with tiny_disk(tmp_path / "disk") as made:
        yield made


def test_d01_a_full_disk_does_not_end_training(
    disk: TinyDisk, make_trainer: Callable[..., Trainer]
) -> None:
    """Daemon and worker live through it; new runs are refused; the last checkpoint stays good."""
    trainer = make_trainer("disk/home", min_free_disk_mb="4", grace_s=TIME_TO_SAVE).start()
    run_id = _submit(trainer)
    saved = until(lambda: trainer.client.get(run_id).checkpoints, "the first checkpoint")
    disk.fill()
    _computes_without_a_word(trainer, run_id)
    with pytest.raises(StorageError, match="free"):
        _submit(trainer)
    record = trainer.client.get(run_id)
    assert record.state == "EXEC"
    assert harness.newest_state(Path(record.run_dir))["step"] >= saved[-1].step
    stuck = record.progress.step

    disk.empty()
    until(lambda: trainer.client.get(run_id).progress.step > stuck, "metrics come again")
    until(lambda: "the disk was full" in _notes(trainer, run_id), "the gap is told")
    newest = trainer.client.get(run_id).checkpoints[-1].step
    until(lambda: trainer.client.get(run_id).checkpoints[-1].step > newest, "it saves again")
    trainer.client.cancel(run_id)
    ended = trainer.ended(run_id)
    assert (ended.outcome, ended.pid) == ("cancelled", record.pid)
    assert harness.newest_state(Path(record.run_dir))["step"] == ended.checkpoints[-1].step
    steps = [step for b in trainer.client.metrics(run_id, tags=["charts/SPS"]) for step in b.steps]
    assert any(saved[-1].step < step <= stuck for step in steps) or stuck <= saved[-1].step
    assert steps == sorted(steps)


def _submit(trainer: Trainer) -> str:
    config = {
        "algo": "ppo",
        "env_id": "CartPole-v1",
        "total_timesteps": 1_000_000_000,
        "extras": {"algo_params": {"checkpoint_interval_s": 0.5}, "fastlane_video_mode": "off"},
    }
    document = {"artifacts": {}, "metadata": {"worker": {"type": "cleanrl", "config": config}}}
    return str(trainer.client.submit(document).run_id)


def _computes_without_a_word(trainer: Trainer, run_id: str) -> None:
    """Wait until it computes and nothing it says arrives; its last page on disk had room left."""
    record = trainer.client.get(run_id)
    training = psutil.Process(record.pid).children()[0]
    log = Path(record.run_dir) / "logs" / "stdout.log"
    size = -1
    while log.stat().st_size != size:
        size, used = log.stat().st_size, training.cpu_times().user
        until(lambda used=used: training.cpu_times().user > used + 3.0, "it computes")


def _notes(trainer: Trainer, run_id: str) -> str:
    events = trainer.client.events(run_id)
    return "\n".join(str(event.data) for event in events if event.kind == "worker_note")


def test_d01_lifecycle_lines_wait_for_the_disk(disk: TinyDisk) -> None:
    """Events are written late but whole and in order; lost vital signs are counted."""
    path = disk.path / "stdout.log"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    emitter = LifecycleEmitter(RUN_ID, descriptor)
    emitter.run_started(worker="test", total=1)
    disk.fill()
    while not emitter.lost:
        emitter.heartbeat()
    lost = emitter.lost
    emitter.checkpoint_saved("checkpoints/a", 1, "0", "full")
    emitter.note("note", {"text": "still here"})
    emitter.heartbeat()
    disk.empty()
    emitter.run_completed(step=1)
    os.close(descriptor)
    lines = _read(path)
    events = [line.event for line in lines if line.event != "heartbeat"]
    assert events == ["run_started", "note", "checkpoint_saved", "note", "run_completed"]
    assert emitter.lost == lost + 1
    (gap,) = [line for line in lines if "lines were lost" in line.fields.get("text", "")]
    assert gap.fields["text"].endswith(f"{emitter.lost} lines were lost")
    assert [line.seq for line in lines] == list(range(1, len(lines) + 1))


def _read(path: Path) -> list[LifecycleLine]:
    """Every good line; at most one may have been torn where the disk was full."""
    good: list[LifecycleLine] = []
    torn = 0
    for raw in path.read_bytes().splitlines():
        parsed: Any = parse_line(raw, RUN_ID, good[-1].seq if good else 0)
        torn += isinstance(parsed, QuarantinedLine)
        if isinstance(parsed, LifecycleLine):
            good.append(parsed)
    assert torn <= 1
    return good


def test_d01_points_of_a_curve_wait_for_the_disk(disk: TinyDisk) -> None:
    """A curve has all its points, once each, after the disk was full for a while."""
    writer = MetricWriter(disk.path, flush_every_s=3600)
    writer.add("a", 0, 0.0)
    writer.flush()
    disk.fill()
    for step in range(1, 2000):
        writer.add("a", step, 1.0)
        if step % 100 == 0:
            writer.flush()
    assert "No space left" in writer.trouble
    disk.empty()
    writer.close()
    assert (writer.trouble, writer.lost) == ("", 0)
    assert MetricReader(disk.path).read("a")["step"].tolist() == list(range(2000))


def test_d01_telemetry_that_cannot_be_spooled_is_counted(disk: TinyDisk) -> None:
    """Recording goes on when the spool's disk is full: what it did not take is counted."""
    outbox = Outbox(disk.path, Kind.STEPS, Policy.SPOOL, last_seq=0, capacity=1)

    def put(count: int) -> int:
        return sum(outbox.put(pb.Step(observation_json="x" * 500)) for _ in range(count))

    assert put(50) == 50
    disk.fill()
    taken = 50 + put(50)
    assert outbox.stats.dropped == 100 - taken > 0
    disk.empty()
    assert put(50) == 50
    assert outbox.close() == taken + 50
    spool = Spool(disk.path, Kind.STEPS)
    kept = spool.take(1000)
    spool.close()
    assert [record.seq for record in kept] == list(range(1, taken + 51))
