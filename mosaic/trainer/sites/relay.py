"""Live pictures of a run on another machine: its agent sends them once, for all who watch."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from mosaic.wire import trainer_pb2 as pb


@dataclass(frozen=True)
class Wish:
    """What a viewer asks for, within what the daemon allows."""

    max_fps: float
    max_dim: int
    quality: int


class FrameRelay:
    """The newest picture of a run, and who waits for it."""

    def __init__(self) -> None:
        self._viewers: dict[object, Wish] = {}
        self._newest: pb.Frame | None = None
        self._count = 0
        self._news = asyncio.Event()

    @property
    def wish(self) -> Wish | None:
        """What satisfies every viewer; None while no one watches."""
        if not self._viewers:
            return None
        wishes = list(self._viewers.values())
        # 0 stands for the size that the run renders in, which is the largest.
        sizes = [wish.max_dim for wish in wishes]
        return Wish(
            max(wish.max_fps for wish in wishes),
            0 if 0 in sizes else max(sizes),
            max(wish.quality for wish in wishes),
        )

    @property
    def count(self) -> int:
        """How many pictures have come."""
        return self._count

    def put(self, frame: pb.Frame) -> bool:
        """Show a picture; False when no one watches any more."""
        self._newest = frame
        self._count += 1
        self._news.set()
        self._news = asyncio.Event()
        return bool(self._viewers)

    async def watch(self, wish: Wish, patience_s: float) -> AsyncIterator[pb.Frame | None]:
        """The newest picture again and again; a slow viewer skips some.

        Yields:
            None after `patience_s` without a picture, so that the caller can look up.
        """
        me, seen = object(), self._count
        self._viewers[me] = wish
        try:
            while True:
                if seen == self._count:
                    try:
                        await asyncio.wait_for(self._news.wait(), patience_s)
                    except TimeoutError:
                        yield None
                        continue
                seen = self._count
                yield self._newest
        finally:
            del self._viewers[me]
