"""The SDK's blocking streams, read by a thread each and handed to the event loop."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Generic, TypeVar

from mosaic.client import TrainerClient
from mosaic.errors import MosaicError, TooManyStreamsError

Item = TypeVar("Item")
Connect = Callable[[], TrainerClient]
Open = Callable[[TrainerClient], Iterator[Item]]
# Each stream is a thread and a connection. More than a class of thirty has open at once.
MOST_STREAMS = 200


class Relay(Generic[Item]):
    """Several streams of one reader as one asynchronous iterator.

    Each has a connection of its own, because closing the connection is what ends a stream that
    waits for news. The reader sets the pace: a thread waits until its last item was taken, and the
    daemon, whose stream then fills up, sends less.

    Raises:
        MosaicError: A stream was refused, or the daemon is gone.
        TooManyStreamsError: Too many are open already.
    """

    _open = 0
    _count = threading.Lock()

    def __init__(self, connect: Connect, streams: Sequence[Open[Item]]) -> None:
        self._connect, self._streams = connect, streams
        self._clients: list[TrainerClient] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    async def items(self) -> AsyncIterator[Item]:
        """What the streams say until all have ended."""
        self._enter()
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[Item | Exception | None] = asyncio.Queue(1)
        try:
            for stream in self._streams:
                threading.Thread(
                    target=self._read, args=(loop, queue, stream), name="web-relay", daemon=True
                ).start()
            left = len(self._streams)
            while left:
                item = await queue.get()
                if item is None:
                    left -= 1
                elif isinstance(item, Exception):
                    raise item
                else:
                    yield item
        finally:
            self._close()
            self._leave()

    def _read(
        self,
        loop: asyncio.AbstractEventLoop,
        queue: asyncio.Queue[Item | Exception | None],
        stream: Open[Item],
    ) -> None:
        last: Exception | None = None
        try:
            with self._connect() as client:
                with self._lock:
                    self._clients.append(client)
                # Asked after it was listed: `_close` has either seen it or has been seen here.
                if self._stopping.is_set():
                    return
                for item in stream(client):
                    if not _put(loop, queue, item, self._stopping):
                        return
        except (MosaicError, OSError) as error:
            last = error
        _put(loop, queue, last, self._stopping)

    def _close(self) -> None:
        self._stopping.set()
        with self._lock:
            clients = list(self._clients)
        for client in clients:
            client.close()

    def _enter(self) -> None:
        with Relay._count:
            if Relay._open >= MOST_STREAMS:
                raise TooManyStreamsError("too many pages are open; close some and load this again")
            Relay._open += 1

    def _leave(self) -> None:
        with Relay._count:
            Relay._open -= 1


def _put(
    loop: asyncio.AbstractEventLoop,
    queue: asyncio.Queue[Item | Exception | None],
    item: Item | Exception | None,
    stopping: threading.Event,
) -> bool:
    """Hand an item over and wait until there is room; False if its reader is gone."""
    try:
        waiting = asyncio.run_coroutine_threadsafe(queue.put(item), loop)
    except RuntimeError:
        return False
    while True:
        try:
            # In short turns: a reader that left takes nothing more, and this thread has to end.
            waiting.result(0.5)
            return True
        except TimeoutError:
            if stopping.is_set():
                waiting.cancel()
                return False
        except CancelledError:
            return False
