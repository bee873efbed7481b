"""Telling watchers about changes without ever waiting for them."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")
CAPACITY = 1024


@dataclass(frozen=True)
class Missed:
    """The watcher was too slow: changes after `from_` up to `to` were dropped."""

    from_: int
    to: int


@dataclass(eq=False)
class Subscription(Generic[T]):
    """One watcher's queue; when it overflows, its content becomes one gap."""

    capacity: int = CAPACITY
    _items: "deque[tuple[int, T]]" = field(default_factory=deque)
    _gap: Missed | None = None
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _delivered: int = 0

    def offer(self, sequence: int, item: T) -> None:
        """Add a change, or turn everything undelivered into a gap."""
        # One slow watcher must cost neither memory without end nor the others' time. It learns
        # what it missed and can ask the registry, which has every row.
        if self._gap or len(self._items) >= self.capacity:
            first = self._gap.from_ if self._gap else self._delivered
            self._items.clear()
            self._gap = Missed(first, sequence)
        else:
            self._items.append((sequence, item))
        self._wake.set()

    async def next(self) -> tuple[int, T] | Missed:
        """The next change, or the gap."""
        while True:
            if self._gap:
                gap, self._gap = self._gap, None
                self._delivered = gap.to
                return gap
            if self._items:
                sequence, item = self._items.popleft()
                self._delivered = sequence
                return sequence, item
            # Nothing awaits between the look above and this line, so no wake-up is lost.
            self._wake.clear()
            await self._wake.wait()


class Broadcaster(Generic[T]):
    """Fans changes out to subscriptions."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription[T]] = set()

    def subscribe(self, since: int, capacity: int = CAPACITY) -> Subscription[T]:
        """Join; `since` is the newest sequence the watcher already knows."""
        subscription: Subscription[T] = Subscription(capacity, _delivered=since)
        self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription[T]) -> None:
        """Leave."""
        self._subscriptions.discard(subscription)

    def publish(self, sequence: int, item: T) -> None:
        """Tell every watcher; never blocks."""
        for subscription in self._subscriptions:
            subscription.offer(sequence, item)

    def __len__(self) -> int:
        return len(self._subscriptions)
