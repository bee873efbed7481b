"""What the store keeps through kills, and what it says about the rest."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from mosaic.errors import StoreVersionError
from mosaic.telemetry.records import Kind, Reason, Rejection
from mosaic.telemetry.schema import SCHEMA_VERSION, store_path
from mosaic.telemetry.store import StoreReader, StoreWriter
from mosaic.wire import trainer_pb2 as pb

WRITER = """
import sys
from pathlib import Path
from mosaic.telemetry.records import Kind
from mosaic.telemetry.store import StoreWriter
from mosaic.wire import trainer_pb2 as pb

writer = StoreWriter(Path(sys.argv[1]), lambda done: print(done[-1].last_seq, flush=True))
seq = 0
while True:
    steps = [pb.Step(seq=seq + i + 1, observation_json="[1]", reward=0.5) for i in range(256)]
    seq += 256
    writer.submit(Kind.STEPS, steps, 4096)
    if seq % 2048 == 0:
        writer.flush()
"""


def test_kill_9_loses_at_most_the_batch_in_flight_and_the_store_says_so(tmp_path: Path) -> None:
    """Everything acknowledged before a `kill -9` is there afterwards, in order, without holes."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    acknowledged = [int(process.stdout.readline()) for _ in range(20)][-1]
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()

    writer = StoreWriter(tmp_path)
    assert "not closed in good order" in writer.notice
    reader = StoreReader(tmp_path)
    kept = [r.seq for r in reader.read(Kind.STEPS, 0, 10_000_000)]
    assert kept == list(range(1, len(kept) + 1))
    assert len(kept) >= acknowledged
    reader.close()
    writer.close()

    again = StoreWriter(tmp_path)
    assert again.notice == ""
    again.close()


def test_every_field_comes_back_as_it_went_in(tmp_path: Path) -> None:
    """Replay is exact: floats to the last bit, texts and frames byte for byte."""
    step = pb.Step(
        seq=1, episode=7, step=3, observation_json="[0.1,0.30000000000000004]", action_json="[1]",
        reward=0.1 + 0.2, terminated=True, truncated=False, info_json='{"a":"ä"}',
        frame=bytes(range(256)), at=1.5, agent_id="left",
    )  # fmt: skip
    episode = pb.Episode(
        seq=1, episode=7, length=4, total_reward=-1e-300, outcome="won", seed=-5, at=2.5
    )
    writer = StoreWriter(tmp_path)
    writer.submit(Kind.STEPS, [step], 100)
    writer.submit(Kind.EPISODES, [episode], 100)
    assert writer.flush(10)
    reader = StoreReader(tmp_path)
    [stored] = reader.read(Kind.STEPS)
    assert isinstance(stored, pb.Step)
    assert reader.frame(stored.frame_ref) == step.frame
    stored.frame, stored.frame_ref = step.frame, ""
    assert stored == step
    assert reader.read(Kind.EPISODES) == [episode]
    reader.close()
    writer.close()


def test_equal_frames_are_kept_once(tmp_path: Path) -> None:
    """A grid world of sixteen pictures stores sixteen pictures, however long it runs."""
    writer = StoreWriter(tmp_path)
    pictures = [bytes([n]) * 1000 for n in range(16)]
    steps = [pb.Step(seq=n + 1, frame=pictures[n % 16]) for n in range(2000)]
    writer.submit(Kind.STEPS, steps, 1)
    writer.close()
    with sqlite3.connect(store_path(tmp_path)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM frames").fetchone() == (16,)
    connection.close()


def test_a_locked_database_delays_and_loses_nothing(tmp_path: Path) -> None:
    """While another program holds the file, records wait and the trouble has a name."""
    writer = StoreWriter(tmp_path)
    writer._connection.execute("PRAGMA busy_timeout = 50")
    other = sqlite3.connect(store_path(tmp_path), isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    writer.submit(Kind.STEPS, [pb.Step(seq=1)], 1)
    assert not writer.flush(0.6)
    assert "locked" in writer.trouble
    other.execute("ROLLBACK")
    other.close()
    assert writer.flush(10)
    assert writer.trouble == ""
    writer.close()


def test_a_flood_of_bad_records_leaves_counts_and_a_bounded_sample(tmp_path: Path) -> None:
    """Quarantine counts everything and keeps only enough to find the cause."""
    writer = StoreWriter(tmp_path)
    for start in range(0, 5000, 500):
        writer.set_aside(
            [
                Rejection(Kind.STEPS, start + i + 1, Reason.NOT_A_NUMBER, "reward is nan")
                for i in range(500)
            ]
        )
    writer.close()
    reader = StoreReader(tmp_path)
    assert reader.quarantined() == {"steps": {"not_a_number": 5000}}
    assert reader.last_seq(Kind.STEPS) == 5000
    reader.close()
    with sqlite3.connect(store_path(tmp_path)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM quarantine").fetchone() == (1000,)
    connection.close()


def test_a_store_of_a_newer_mosaic_is_refused_with_both_versions(tmp_path: Path) -> None:
    """An old program never writes into a store it does not understand."""
    StoreWriter(tmp_path).close()
    with sqlite3.connect(store_path(tmp_path)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    with pytest.raises(StoreVersionError, match=f"schema {SCHEMA_VERSION + 1}"):
        StoreWriter(tmp_path)


def test_a_damaged_store_is_put_aside_and_recording_goes_on(tmp_path: Path) -> None:
    """Garbage where the store should be costs the old records' index, never the new records."""
    store_path(tmp_path).parent.mkdir()
    store_path(tmp_path).write_bytes(b"not a database at all" * 100)
    writer = StoreWriter(tmp_path)
    assert "telemetry.db.damaged-1" in writer.notice
    writer.submit(Kind.STEPS, [pb.Step(seq=1)], 1)
    assert writer.close()
    reader = StoreReader(tmp_path)
    assert reader.count(Kind.STEPS) == 1
    reader.close()
    assert (store_path(tmp_path).parent / "telemetry.db.damaged-1").exists()
