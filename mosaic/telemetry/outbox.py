"""The worker's queue of records for one stream: numbering, credits, policy when there is no room.

Thread-safe, without any network in it: the training thread puts records in, a connection takes
batches out as its credit allows and reports what the hub has stored.
"""

import threading
import time
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from mosaic.telemetry.records import MAX_RECORD_BYTES, Kind, Record
from mosaic.telemetry.spool import Spool

# Enough to bridge a restart of the daemon without touching the disk.
CAPACITY = 8192
CAPACITY_BYTES = 32 * 1024 * 1024
BATCH_RECORDS = 512
# Far below the daemon's limit of 4 MiB for a message; a record that is larger goes alone.
BATCH_BYTES = 512 * 1024
# How long a sender waits for a batch to fill. People do not see a delay of 50 ms.
LINGER_S = 0.05
TAKEOVER_S = 10.0
SAMPLE_EVERY = 10


class Policy(StrEnum):
    """What to do with a record when the outbox is full."""

    SLOW = "slow"
    SAMPLE = "sample"
    SPOOL = "spool"


@dataclass
class OutboxStats:
    """What happened to the records given so far."""

    taken: int = 0
    dropped: int = 0
    oversized: int = 0
    spooled: int = 0
    waited_s: float = 0.0


class Outbox:
    """Records on their way to the hub.

    Args:
        run_dir: Where the spool file is.
        kind: Steps or episodes.
        policy: `slow` waits up to `patience_s` in all for room before it drops records, `sample`
            keeps one record in ten (and every record marked as important), `spool` writes to disk.
        patience_s: How long `slow` may hold the learning up between two moments of progress.
    """

    def __init__(
        self,
        run_dir: Path,
        kind: Kind,
        policy: Policy,
        last_seq: int,
        patience_s: float = 5.0,
        capacity: int = CAPACITY,
    ) -> None:
        self._policy = policy
        self._capacity = capacity
        self._patience_s = patience_s
        self._patience_left = patience_s
        # The daemon may be taking over what an earlier process of this run left behind.
        self._spool = Spool(run_dir, kind, TAKEOVER_S)
        self._seq = max(last_seq, self._spool.last_seq())
        self._waiting: deque[Record] = deque()
        self._waiting_bytes = 0
        self._unsafe: deque[Record] = deque()
        self._skipped = 0
        self._credit = 0
        self._connection = 0
        self._closing = False
        self._change = threading.Condition()
        self.starved = False
        self.stats = OutboxStats()

    @property
    def last_seq(self) -> int:
        """The number of the newest record, from this process or from one before it."""
        with self._change:
            return self._seq

    def put(self, record: Record, important: bool = False) -> bool:
        """Queue a record; False when it is too large or the policy dropped it.

        The policy `slow` may wait for room, but never longer than its patience.
        """
        with self._change:
            if record.ByteSize() > MAX_RECORD_BYTES:
                # The hub would set it aside, and the wire may not carry it at all.
                self.stats.oversized += 1
                return False
            kept = (
                self._to_spool(record) if self._spooling() else self._to_memory(record, important)
            )
            if not kept:
                self.stats.dropped += 1
                return False
            # The number is used up only by a record that is kept: a gap would look like a loss.
            self._seq = record.seq
            self.stats.taken += 1
            # A sender waits for the first record, and then for a full batch; waking it for each
            # record in between would cost the training thread a system call every step.
            if len(self._waiting) in (1, BATCH_RECORDS):
                self._change.notify_all()
            return True

    def connected(self, acknowledged: int) -> int:
        """A connection is open: resend what is not safe. Returns the connection's number."""
        with self._change:
            self._acknowledge(acknowledged)
            if not self.stats.taken:
                self._seq = max(self._seq, acknowledged)
            # What the old connection took with it may never have arrived: it goes first again,
            # in its old order. The hub recognises by number what it has already.
            self._waiting.extendleft(reversed(self._unsafe))
            self._waiting_bytes += sum(record.ByteSize() for record in self._unsafe)
            self._unsafe.clear()
            self._credit = 0
            self._connection += 1
            return self._connection

    def credit(self, grant: int, acknowledged: int, starved: bool) -> None:
        """The hub granted credit and says what is stored."""
        with self._change:
            self._credit += grant
            self.starved = starved
            self._acknowledge(acknowledged)
            self._change.notify_all()

    def next_batch(self, connection: int) -> list[Record] | None:
        """Records the connection may send now; `None` when the connection is to end."""
        with self._change:
            while connection == self._connection:
                if not self._waiting and self._spool.waiting and self._credit > 0:
                    self._waiting.extend(self._spool.take(BATCH_RECORDS))
                    self._waiting_bytes = sum(record.ByteSize() for record in self._waiting)
                if self._waiting and self._credit > 0:
                    self._change.wait_for(
                        lambda: self._closing or len(self._waiting) >= BATCH_RECORDS, LINGER_S
                    )
                    # Another connection may have taken over meanwhile: its credit is not ours.
                    if connection != self._connection:
                        return None
                    return self._take(min(BATCH_RECORDS, self._credit))
                if self._closing and self._all_safe():
                    return None
                # Woken by every change; the second is only for a wake-up that was missed.
                self._change.wait(1.0)
            return None

    def disconnected(self) -> None:
        """The connection is gone: wake its sender so that it ends."""
        with self._change:
            self._connection += 1
            self._change.notify_all()

    def drain(self, timeout: float) -> bool:
        """Wait until the hub has stored everything; False when the time ran out."""
        with self._change:
            self._closing = True
            self._change.notify_all()
            return self._change.wait_for(self._all_safe, timeout)

    def close(self) -> int:
        """Keep what is still undelivered in the spool; how many records that are."""
        with self._change:
            # A sender that is still running must not take records that go to the spool now.
            self._connection += 1
            unsent = [*self._unsafe, *self._waiting]
            try:
                # Before what already waits there: these are older.
                left = self._spool.put_back(unsent)
            except OSError:
                left = 0
                self.stats.dropped += len(unsent)
            self._unsafe.clear()
            self._waiting.clear()
            self._waiting_bytes = 0
            self._change.notify_all()
            self._spool.close()
            return left

    def _spooling(self) -> bool:
        """Whether the next record goes to disk.

        Once records wait there, all later ones have to follow: otherwise they would overtake.
        """
        return self._spool.waiting or (self._policy is Policy.SPOOL and not self._room())

    def _to_spool(self, record: Record) -> bool:
        """Keep a record on disk; a full disk must not end the learning."""
        if self._spool.full:
            return False
        record.seq = self._seq + 1
        try:
            self._spool.append(record)
        except OSError:
            return False
        self.stats.spooled += 1
        return True

    def _to_memory(self, record: Record, important: bool) -> bool:
        """Keep a record in memory, if there is room or the policy makes some."""
        if not self._room() and not self._room_by_policy(important):
            return False
        # After the wait for room, in which the lock is free and a connection may move the count.
        record.seq = self._seq + 1
        self._waiting.append(record)
        self._waiting_bytes += record.ByteSize()
        return True

    def _room(self) -> bool:
        return len(self._waiting) < self._capacity and self._waiting_bytes < CAPACITY_BYTES

    def _all_safe(self) -> bool:
        return not self._waiting and not self._unsafe and not self._spool.waiting

    def _take(self, limit: int) -> list[Record]:
        batch: list[Record] = []
        size = taken = 0
        while self._waiting and len(batch) < limit:
            size += self._waiting[0].ByteSize()
            if batch and size > BATCH_BYTES:
                break
            batch.append(self._waiting.popleft())
            taken = size
        self._waiting_bytes -= taken
        self._unsafe.extend(batch)
        self._credit -= len(batch)
        if self._policy is Policy.SLOW:
            self._change.notify_all()
        return batch

    def _acknowledge(self, acknowledged: int) -> None:
        progress = False
        while self._unsafe and self._unsafe[0].seq <= acknowledged:
            self._unsafe.popleft()
            progress = True
        if progress:
            # Patience is for a hub that stores nothing. One that is slow may slow the learning.
            self._patience_left = self._patience_s
            if self._all_safe():
                self._spool.clear()
            self._change.notify_all()

    def _room_by_policy(self, important: bool) -> bool:
        if self._policy is Policy.SAMPLE:
            self._skipped += 1
            if not important and self._skipped < SAMPLE_EVERY:
                return False
            self._skipped = 0
            return (
                len(self._waiting) < 2 * self._capacity and self._waiting_bytes < 2 * CAPACITY_BYTES
            )
        started = time.monotonic()
        found = self._change.wait_for(self._room, self._patience_left)
        waited = time.monotonic() - started
        self.stats.waited_s += waited
        self._patience_left = max(0.0, self._patience_left - waited)
        return found
