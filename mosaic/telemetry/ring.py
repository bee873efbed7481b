"""The newest records of one stream, shared by every live viewer.

Viewers hold a cursor and no queue of their own: a hundred slow viewers cost what one costs, and
one that falls behind the ring learns exactly which records it missed. (The daemon's news about
runs are few and small, and a watcher that missed some asks for a new snapshot; there each watcher
has a queue, in `mosaic.trainer.storage.broadcast`.)
"""

from collections import deque
from dataclasses import dataclass, field

from mosaic.telemetry.records import Batch, records_of

RING_RECORDS = 16384
RING_BYTES = 4 * 1024 * 1024
VIEW_RECORDS = 512


@dataclass(frozen=True)
class _Entry:
    first: int
    last: int
    count: int
    size: int
    batch: Batch


@dataclass
class LiveRing:
    """A bounded run of batches in sequence order."""

    max_records: int = RING_RECORDS
    max_bytes: int = RING_BYTES
    records: int = 0
    size: int = 0
    newest: int = 0
    _entries: deque[_Entry] = field(default_factory=deque)

    def append(self, batch: Batch, size: int) -> None:
        """Add the newest batch and let the oldest go when the ring is full."""
        records = records_of(batch)
        entry = _Entry(records[0].seq, records[-1].seq, len(records), size, batch)
        self._entries.append(entry)
        self.records += entry.count
        self.size += size
        self.newest = entry.last
        # The newest always stays, however large it is: otherwise no viewer would ever see it.
        while len(self._entries) > 1 and (
            self.records > self.max_records or self.size > self.max_bytes
        ):
            gone = self._entries.popleft()
            self.records -= gone.count
            self.size -= gone.size

    @property
    def oldest(self) -> int:
        """The first sequence number still here; one past the newest when empty."""
        return self._entries[0].first if self._entries else self.newest + 1

    def after(self, cursor: int, limit: int = VIEW_RECORDS) -> list[Batch]:
        """Batches with records past `cursor`, oldest first, about `limit` records in all."""
        wanted: deque[_Entry] = deque()
        # From the newest back: a viewer that keeps up needs the last few of thousands.
        for entry in reversed(self._entries):
            if entry.last <= cursor:
                break
            wanted.appendleft(entry)
        batches: list[Batch] = []
        count = 0
        for entry in wanted:
            if count >= limit:
                break
            batches.append(entry.batch)
            count += entry.count
        return batches
