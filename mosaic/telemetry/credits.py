"""How many records a worker may send: a pure credit window per stream.

A stream owns a window of records. A record takes its place when it is granted and frees it
when it is stored, so `granted and on the way` plus `received and not yet stored` never exceed the
window, whatever the store or the disk does.
"""

from dataclasses import dataclass
from enum import StrEnum

# As many as a worker's outbox holds.
DEFAULT_WINDOW = 8192
DEFAULT_BYTES = 16 * 1024 * 1024
STARVE_AFTER_S = 1.0


class Turn(StrEnum):
    """A change worth an event."""

    STARVED = "telemetry_starved"
    RESUMED = "telemetry_resumed"


@dataclass
class CreditWindow:
    """The credit account of one stream.

    A stream counts as starved only after `starve_after_s` without credit: a window that empties
    and fills again between two commits is the system working, not a fault.
    """

    window: int = DEFAULT_WINDOW
    byte_limit: int = DEFAULT_BYTES
    starve_after_s: float = STARVE_AFTER_S
    outstanding: int = 0
    pending: int = 0
    pending_bytes: int = 0
    overdrawn: int = 0
    starved: bool = False
    dry_since: float | None = None

    def receive(self, count: int, size: int) -> None:
        """Records arrived; whatever came without credit is counted, not refused."""
        self.overdrawn += max(0, count - self.outstanding)
        self.outstanding = max(0, self.outstanding - count)
        self.pending += count
        self.pending_bytes += size

    def store(self, count: int, size: int) -> None:
        """Records are safe on disk, or were set aside for good."""
        self.pending = max(0, self.pending - count)
        self.pending_bytes = max(0, self.pending_bytes - size)

    def grant(self) -> int:
        """Take the credit that can be given now; 0 when it is not worth a message yet."""
        if self.pending_bytes > self.byte_limit:
            return 0
        free = self.window - self.outstanding - self.pending
        # Small grants are saved up, unless the worker has none left and waits.
        if free <= 0 or (free < self.window // 4 and self.outstanding > 0):
            return 0
        self.outstanding += free
        return free

    def reset(self) -> None:
        """The stream was opened again: credit given to the old one is void."""
        self.outstanding = 0

    @property
    def full(self) -> bool:
        """Whether reading another message would break the memory bound."""
        return self.pending >= 2 * self.window or self.pending_bytes > 2 * self.byte_limit

    def tick(self, now: float) -> Turn | None:
        """Say whether the stream became starved, or recovered, by the monotonic time `now`."""
        if self.outstanding > 0:
            self.dry_since = None
            if self.starved:
                self.starved = False
                return Turn.RESUMED
            return None
        if self.dry_since is None:
            self.dry_since = now
        if not self.starved and now - self.dry_since >= self.starve_after_s:
            self.starved = True
            return Turn.STARVED
        return None
