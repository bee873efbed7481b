"""One record stream of one run inside the hub, and the worker's session on it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from mosaic.config.json_types import JsonValue
from mosaic.telemetry.credits import CreditWindow, Turn
from mosaic.telemetry.records import Batch, Kind, Sieve, records_of
from mosaic.telemetry.ring import LiveRing
from mosaic.telemetry.store import Committed, StoreWriter
from mosaic.wire import trainer_pb2 as pb


class Lane:
    """Sieve, credit window and live ring of one stream."""

    def __init__(self, run_id: str, kind: Kind) -> None:
        self.run_id = run_id
        self.kind = kind
        self.sieve = Sieve(run_id, kind)
        self.window = CreditWindow()
        self.ring = LiveRing()
        self.session: Session | None = None
        self.committed_seq = 0
        self.accepted = 0
        self.ended = False
        self.new_reasons = False
        self._news = asyncio.Event()

    def recall(self, last_seq: int) -> None:
        """Continue after what the store already holds."""
        if last_seq > self.sieve.last_seq:
            self.sieve.last_seq = last_seq
        self.committed_seq = max(self.committed_seq, last_seq)
        if not self.ring.newest:
            self.ring.newest = self.sieve.last_seq

    def accept(self, batch: Batch, writer: StoreWriter) -> Batch | None:
        """Sift a batch, show the good part to viewers and hand it to the store."""
        offered, size = len(records_of(batch)), batch.ByteSize()
        self.window.receive(offered, size)
        known = len(self.sieve.counts)
        good, rejected = self.sieve.sift(batch)
        if rejected:
            writer.set_aside(rejected)
            self.new_reasons |= len(self.sieve.counts) > known
            kept = good.ByteSize() if good is not None else 0
            self.window.store(len(rejected), max(0, size - kept))
            size = kept
        if good is not None:
            records = list(records_of(good))
            self.accepted += len(records)
            # Viewers first: a slow disk delays what is safe, not what is seen.
            self.ring.append(good, size)
            writer.submit(self.kind, records, size)
        self._acknowledge_rejected()
        self.announce()
        return good

    def committed(self, commit: Committed) -> None:
        """A batch is safe on disk."""
        self.window.store(commit.count, commit.size)
        self.committed_seq = max(self.committed_seq, commit.last_seq)
        self._acknowledge_rejected()
        self.announce()

    def _acknowledge_rejected(self) -> None:
        # A rejected record is settled too: its worker must not wait for it, nor send it again.
        if self.window.pending == 0:
            self.committed_seq = max(self.committed_seq, self.sieve.last_seq)

    def tick(self, now: float) -> Turn | None:
        """Notice starvation and recovery of a connected worker."""
        if self.session is None:
            return None
        turn = self.window.tick(now)
        if turn is not None:
            self.announce()
        return turn

    def end(self) -> None:
        """No more records will come."""
        self.ended = True
        if self.session is not None:
            self.session.supersede()
        self.announce()

    async def changed(self) -> None:
        """Wait for records, commits or the end."""
        await self._news.wait()

    def announce(self) -> None:
        """Wake everyone who waits for a change of this lane."""
        # A new event for those who come later: with one event they would have to clear it, and
        # the first to do so would take the news from the others.
        self._news.set()
        self._news = asyncio.Event()

    def stats(self) -> dict[str, JsonValue]:
        """Counters for people and tests."""
        return {
            "accepted": self.accepted,
            "stored_up_to": self.committed_seq,
            "missing": self.sieve.missing,
            "quarantined": {reason.value: n for reason, n in self.sieve.counts.items()},
            "pending": self.window.pending,
            "without_credit": self.window.overdrawn,
        }


class Session:
    """A worker's open stream: records in, credits out."""

    def __init__(
        self,
        lane: Lane,
        writer: StoreWriter,
        see: Callable[[Batch], None],
        leave: Callable[[], Awaitable[None]],
    ) -> None:
        self._lane = lane
        self._writer = writer
        self._see = see
        self._leave = leave
        self.superseded = False
        # A run that was thought to be over records again: its worker has come back.
        lane.ended = False
        lane.window.reset()

    async def offer(self, batch: Batch) -> None:
        """Take a batch; waits only when the memory bound is reached."""
        while self._lane.window.full and not self.superseded:
            await self._lane.changed()
        good = self._lane.accept(batch, self._writer)
        if good is not None:
            self._see(good)

    async def credits(self) -> AsyncIterator[pb.Credit]:
        """Credit messages as they become due; the first comes at once."""
        said: tuple[int, bool] | None = None
        while not self.superseded:
            granted = self._lane.window.grant()
            state = self._lane.committed_seq, self._lane.window.starved
            if granted or state != said:
                said = state
                yield pb.Credit(grant=granted, acknowledged=state[0], starved=state[1])
            else:
                await self._lane.changed()

    def supersede(self) -> None:
        """End this stream: a newer one took over, or the run ended."""
        self.superseded = True
        if self._lane.session is self:
            self._lane.session = None
        self._lane.announce()

    async def close(self) -> None:
        """The worker hung up."""
        if self._lane.session is self:
            self._lane.session = None
        self.superseded = True
        self._lane.announce()
        await self._leave()
