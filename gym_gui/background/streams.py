"""A long-running stream of the daemon, read in its own thread, delivered in batches."""

import threading
import time
from collections.abc import Callable, Iterator

from qtpy.QtCore import QObject, Signal

from gym_gui.background.calls import connect_queued
from gym_gui.background.daemon_link import DaemonLink
from mosaic.client import TrainerClient
from mosaic.errors import MosaicError

# The daemon is restarting or the machine is short of something; both take about this long.
_RETRY_S = 1.0
# Batches of the daemon, about what the window draws in a second.
_MAX_WAITING = 64


class Stream(QObject):
    """Follows `open_stream(client)` and hands over what comes.

    Back pressure: when the window has not taken the last `_MAX_WAITING` items, the thread waits,
    and so, through the stream's flow control, does the daemon.

    Signals:
        items: A list of what came since the last time.
        ended: The stream is over; the text says why, empty when it simply ended.
    """

    items = Signal(list)
    ended = Signal(str)
    _news = Signal()
    _over = Signal(str)

    def __init__(
        self,
        link: DaemonLink,
        open_stream: Callable[[TrainerClient], Iterator[object]],
        retry: bool = False,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._link = link
        self._open = open_stream
        self._retry = retry
        self._waiting: list[object] = []
        self._room = threading.Condition()
        self._stopping = threading.Event()
        self._client: TrainerClient | None = None
        connect_queued(self._news, self._deliver)
        connect_queued(self._over, self._end)
        self._thread = threading.Thread(target=self._read, name="gui-stream", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it; nothing is delivered after this."""
        self._stopping.set()
        with self._room:
            self._room.notify_all()
            client = self._client
        if client is not None:
            client.close()

    @property
    def running(self) -> bool:
        """Whether the thread is still there."""
        return self._thread.is_alive()

    def _read(self) -> None:
        while not self._stopping.is_set():
            problem = self._read_once()
            if not (problem and self._retry) or self._stopping.wait(_RETRY_S):
                break
        if not self._stopping.is_set():
            self._over.emit(problem)

    def _read_once(self) -> str:
        client = None
        try:
            client = self._link.new_client()
            with self._room:
                self._client = client
            if self._stopping.is_set():
                return ""
            for item in self._open(client):
                self._put(item)
                if self._stopping.is_set():
                    break
        except (MosaicError, OSError, ValueError) as error:
            return str(error) or type(error).__name__
        finally:
            if client is not None:
                self._link.release(client)
        return ""

    def _put(self, item: object) -> None:
        with self._room:
            while len(self._waiting) >= _MAX_WAITING and not self._stopping.is_set():
                # A limit, because `stop` may notify between the test above and this wait.
                self._room.wait(0.5)
            self._waiting.append(item)
            first = len(self._waiting) == 1
        if first and not self._stopping.is_set():
            self._news.emit()

    def _deliver(self) -> None:
        with self._room:
            items, self._waiting = self._waiting, []
            self._room.notify_all()
        if items and not self._stopping.is_set():
            self.items.emit(items)

    def _end(self, problem: str) -> None:
        if not self._stopping.is_set():
            self.ended.emit(problem)


class StreamKeeper:
    """Streams that were stopped but whose threads are still on their way out."""

    def __init__(self) -> None:
        self._streams: list[Stream] = []

    def keep(self, stream: Stream) -> Stream:
        """Remember a stream until its thread has ended."""
        # A QObject whose thread still runs must not be collected: emitting from it would crash.
        self._streams = [one for one in self._streams if one.running]
        self._streams.append(stream)
        return stream

    def close(self, timeout_s: float = 5.0) -> None:
        """Stop all and wait for their threads."""
        deadline = time.monotonic() + timeout_s
        for stream in self._streams:
            stream.stop()
        while any(stream.running for stream in self._streams) and time.monotonic() < deadline:
            time.sleep(0.01)
        self._streams.clear()
