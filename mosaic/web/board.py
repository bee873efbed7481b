"""Every run of the daemon, kept up to date by one stream for all browsers."""

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from mosaic.client import TrainerClient
from mosaic.errors import DaemonNotRunningError, MosaicError
from mosaic.records import ChangesMissed, RunRecord, RunRemoved, RunUpdated, SnapshotEnd
from mosaic.web.listing import Listing
from mosaic.web.relay import Connect

# A daemon that was stopped to be started again is back in about a second.
_RETRY_S = 1.0
# A browser this far behind has stopped reading; it loads the page again when it is back.
_MOST_WAITING = 1000


@dataclass(frozen=True)
class News:
    """A change of the board: a run, or the id of one that is gone, or whether the daemon is away.

    Attributes:
        run: The run as it is now.
        removed: The id of a deleted run.
        problem: Why nothing can be said at the moment; empty once the daemon is back.
        lagging: The reader was too slow and has to begin again.
    """

    run: RunRecord | None = None
    removed: str = ""
    problem: str = ""
    lagging: bool = False


class Reader:
    """One browser's place in the queue of news."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: asyncio.Queue[News] = asyncio.Queue(_MOST_WAITING)

    async def next(self) -> News:
        """Wait for news."""
        return await self._queue.get()

    def tell(self, news: News) -> None:
        """Put news into the queue, from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._put, news)
        except RuntimeError:
            # The server is closing: the loop has ended before this thread.
            pass

    def _put(self, news: News) -> None:
        if self._queue.full():
            while not self._queue.empty():
                self._queue.get_nowait()
            news = News(lagging=True)
        self._queue.put_nowait(news)


class Board:
    """The runs by id. `runs` and `problem` may be read from any thread."""

    def __init__(self, connect: Connect) -> None:
        self.listing = Listing()
        self.problem = ""
        self._connect = connect
        self._client: TrainerClient | None = None
        self._lock = threading.Lock()
        self._readers: set[Reader] = set()
        self._complete = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="web-board", daemon=True)

    @property
    def runs(self) -> Mapping[str, RunRecord]:
        """The runs by id."""
        return self.listing.runs

    def start(self) -> None:
        """Begin to follow the daemon."""
        self._thread.start()

    def wait_complete(self, patience_s: float) -> bool:
        """Wait until all runs are known; False if that takes longer."""
        return self._complete.wait(patience_s)

    def close(self) -> None:
        """Stop following."""
        self._stopping.set()
        with self._lock:
            client = self._client
        if client is not None:
            client.close()
        if self._thread.is_alive():
            self._thread.join(5)

    def join(self, reader: Reader) -> None:
        """Tell a reader every change from now on."""
        with self._lock:
            self._readers.add(reader)

    def leave(self, reader: Reader) -> None:
        """Tell a reader nothing more."""
        with self._lock:
            self._readers.discard(reader)

    def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow_once()
            except (MosaicError, OSError) as error:
                if not self._stopping.is_set():
                    self.problem = str(error).splitlines()[0]
                    self._tell(News(problem=self.problem))
            self._stopping.wait(_RETRY_S)

    def _follow_once(self) -> None:
        client = self._connect()
        with self._lock:
            self._client = client
        # Runs of another daemon, or deleted while this stream was down, are not in the snapshot.
        unseen = set(self.runs)
        try:
            for change in client.watch():
                if self._stopping.is_set():
                    return
                match change:
                    case RunUpdated(run=run):
                        unseen.discard(run.run_id)
                        self._keep(run)
                    case RunRemoved(run_id=run_id):
                        self._drop(run_id)
                    case SnapshotEnd():
                        for run_id in unseen:
                            self._drop(run_id)
                        self.problem = ""
                        self._complete.set()
                        self._tell(News())
                    case ChangesMissed():
                        return
            raise DaemonNotRunningError("the daemon has stopped; start it with: mosaic up")
        finally:
            with self._lock:
                self._client = None
            client.close()

    def _keep(self, run: RunRecord) -> None:
        known = self.runs.get(run.run_id)
        if known is None or known != run:
            self.listing.put(run)
            self._tell(News(run=run))

    def _drop(self, run_id: str) -> None:
        if self.listing.drop(run_id):
            self._tell(News(removed=run_id))

    def _tell(self, news: News) -> None:
        with self._lock:
            readers = list(self._readers)
        for reader in readers:
            reader.tell(news)
