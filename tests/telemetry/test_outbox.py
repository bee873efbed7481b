"""The worker's queue through every order of credits, losses and reconnections."""

import shutil
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mosaic.errors import SpoolBusyError
from mosaic.telemetry.outbox import Outbox, Policy
from mosaic.telemetry.records import MAX_FRAME_BYTES, MAX_TEXT_BYTES, Kind
from mosaic.telemetry.spool import Spool, spool_path
from mosaic.wire import trainer_pb2 as pb

CAPACITY = 5


class UnreliableHub(RuleBasedStateMachine):
    """A hub that stores late, forgets what it had not stored, and hangs up at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.outbox = Outbox(self.folder, Kind.STEPS, Policy.SPOOL, 0, capacity=CAPACITY)
        self.put = 0
        self.stored: list[int] = []
        self.received: list[int] = []
        self.connection = self.outbox.connected(0)
        self.credit = 0

    @rule(count=st.integers(1, 8))
    def learn(self, count: int) -> None:
        for _ in range(count):
            assert self.outbox.put(pb.Step(step=self.put))
            self.put += 1

    @rule(grant=st.integers(1, 6))
    def grant(self, grant: int) -> None:
        self.credit += grant
        self.outbox.credit(grant, len(self.stored), False)

    @rule()
    def send(self) -> None:
        if self.credit and self.put > len(self.stored) + len(self.received):
            batch = self.outbox.next_batch(self.connection)
            assert batch
            assert len(batch) <= self.credit
            self.credit -= len(batch)
            self.received += [record.seq for record in batch]

    @rule()
    def store(self) -> None:
        self.stored += self.received
        self.received = []
        self.outbox.credit(0, len(self.stored), False)

    @rule()
    def hang_up(self) -> None:
        self.received = []
        self.credit = 0
        self.outbox.disconnected()
        assert self.outbox.next_batch(self.connection) is None
        self.connection = self.outbox.connected(len(self.stored))

    @rule()
    def restart_worker(self) -> None:
        self.received = []
        self.credit = 0
        self.outbox.close()
        self.outbox = Outbox(
            self.folder, Kind.STEPS, Policy.SPOOL, len(self.stored), capacity=CAPACITY
        )
        self.connection = self.outbox.connected(len(self.stored))

    @invariant()
    def nothing_is_lost_repeated_or_out_of_order(self) -> None:
        seen = self.stored + self.received
        assert seen == list(range(1, len(seen) + 1))

    def teardown(self) -> None:
        while self.put > len(self.stored):
            self.grant(100)
            self.send()
            self.store()
        assert self.stored == list(range(1, self.put + 1))
        assert self.outbox.close() == 0
        assert not spool_path(self.folder, Kind.STEPS).exists()
        shutil.rmtree(self.folder)


TestUnreliableHub = UnreliableHub.TestCase
TestUnreliableHub.settings = settings(max_examples=40, stateful_step_count=30)


def test_sampling_keeps_the_ends_of_episodes_and_one_step_in_ten(tmp_path: Path) -> None:
    """Without room, beginnings and ends of episodes stay and the middle is thinned evenly."""
    outbox = Outbox(tmp_path, Kind.STEPS, Policy.SAMPLE, 0, capacity=10)
    for n in range(10):
        assert outbox.put(pb.Step(step=n))
    kept = [n for n in range(10, 110) if outbox.put(pb.Step(step=n), important=n == 50)]
    assert 50 in kept
    assert len(kept) == 10
    assert outbox.stats.dropped == 90
    outbox.close()


def test_a_spool_torn_at_any_byte_gives_back_every_whole_record(tmp_path: Path) -> None:
    """A worker killed while it writes loses the record it was writing and no other."""
    spool = Spool(tmp_path, Kind.STEPS)
    ends = [0]
    for n in range(5):
        spool.append(pb.Step(seq=n + 1, observation_json="x" * n * 7))
        ends.append(spool._end)
    spool.close()
    whole = spool_path(tmp_path, Kind.STEPS).read_bytes()
    for length in range(len(whole) + 1):
        spool_path(tmp_path, Kind.STEPS).write_bytes(whole[:length])
        torn = Spool(tmp_path, Kind.STEPS)
        expected = sum(end <= length for end in ends[1:])
        assert [record.seq for record in torn.take(100)] == list(range(1, expected + 1))
        torn.close()


def test_a_flipped_bit_ends_the_reading_before_it(tmp_path: Path) -> None:
    """Damage in the middle is noticed by the checksum; what lies before is kept."""
    spool = Spool(tmp_path, Kind.STEPS)
    for n in range(3):
        spool.append(pb.Step(seq=n + 1, observation_json="abcdefgh"))
    spool.close()
    path = spool_path(tmp_path, Kind.STEPS)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    damaged = Spool(tmp_path, Kind.STEPS)
    assert [record.seq for record in damaged.take(100)] == [1]
    damaged.close()


def test_a_spool_has_one_owner(tmp_path: Path) -> None:
    """The daemon never takes over a spool that a living worker still writes."""
    spool = Spool(tmp_path, Kind.STEPS)
    with pytest.raises(SpoolBusyError):
        Spool(tmp_path, Kind.STEPS)
    threading.Timer(0.3, spool.close).start()
    Spool(tmp_path, Kind.STEPS, patience_s=20).close()


def test_large_frames_fill_the_disk_before_the_memory(tmp_path: Path) -> None:
    """Without a daemon, a worker that sends pictures spools them instead of holding them."""
    outbox = Outbox(tmp_path, Kind.STEPS, Policy.SPOOL, 0)
    for _ in range(60):
        assert outbox.put(pb.Step(frame=bytes(1_000_000)))
    assert outbox.stats.spooled > 20
    assert outbox.close() == 60


def test_a_record_that_no_message_can_carry_is_left_out_and_counted(tmp_path: Path) -> None:
    """A hundred megabytes in one frame cost that record, not the stream."""
    outbox = Outbox(tmp_path, Kind.STEPS, Policy.SPOOL, 0)
    assert not outbox.put(pb.Step(frame=bytes(100_000_000)))
    assert outbox.put(pb.Step(frame=bytes(1000)))
    assert outbox.stats.oversized == 1
    outbox.close()


def test_large_records_travel_in_messages_of_a_usual_size(tmp_path: Path) -> None:
    """Frames of every allowed size fit into gRPC's default limit, one message after another."""
    outbox = Outbox(tmp_path, Kind.STEPS, Policy.SLOW, 0)
    for _ in range(6):
        assert outbox.put(pb.Step(frame=bytes(MAX_FRAME_BYTES), info_json="x" * MAX_TEXT_BYTES))
        assert outbox.put(pb.Step(frame=bytes(200_000)))
    connection = outbox.connected(0)
    outbox.credit(100, 0, False)
    sent = 0
    while sent < 12:
        batch = outbox.next_batch(connection)
        assert batch
        assert pb.StepBatch(steps=batch).ByteSize() < 4 * 1024 * 1024  # type: ignore[arg-type]
        sent += len(batch)
    outbox.credit(0, 12, False)
    assert outbox.close() == 0
