"""The window's connection to one daemon: watched, and made again whenever it is lost.

Two threads: one follows WatchRuns and delivers its changes in batches, one asks for health and
resources every two seconds. Both reconnect by themselves; the window only hears what changed.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from qtpy.QtCore import QObject, QTimer, Signal

from gym_gui.background.calls import Call, Calls, Failed, connect_queued
from mosaic.client import TrainerClient
from mosaic.config.paths import Home
from mosaic.connect.elsewhere import Elsewhere
from mosaic.errors import DaemonNotRunningError, MosaicError
from mosaic.presenting import formatting
from mosaic.records import ChangesMissed, RunChange
from mosaic.records.daemon import Health, Resources

T = TypeVar("T")
CONNECTING, CONNECTED, SLOW, LOST = "connecting", "connected", "slow", "lost"
HERE = "this machine"
# Often enough for the status bar, and two small calls each time.
_PULSE_S = 2.0
# A busy daemon answers within a second; after three it hangs or was stopped by a signal.
_SLOW_AFTER_S = 3.0
# A restarted daemon is back within a second; after that there is no hurry.
_RETRY_S = (0.3, 0.6, 1.0, 2.0)
# As many changes as the table applies in one turn of the event loop without a visible pause.
_BATCH = 250


@dataclass(frozen=True)
class LinkState:
    """How the daemon is doing, in a word and a sentence."""

    name: str
    text: str = ""

    @property
    def usable(self) -> bool:
        """Whether asking the daemon for something has a chance."""
        return self.name in (CONNECTED, SLOW)


@dataclass(frozen=True)
class Pulse:
    """How the daemon and its machine are doing right now."""

    health: Health
    resources: Resources
    latency_ms: float


class DaemonLink(QObject):
    """Connects to the daemon of a home and tells the window what happens there.

    Args:
        home: The daemon's home; of a daemon elsewhere, only the window's own files are in it.
        start: Start a daemon when none runs.
        elsewhere: How to reach a daemon whose home this window cannot read; released on closing.
        address: The text that names the daemon, as a person typed it; empty for this home's own.
        parent: Qt's parent.

    Attributes:
        name: What the window calls the daemon; `Daemons` makes it unique.
        newest: The last `Pulse`, also of a daemon that is lost since; None before the first.
        lost_since: The moment at which the connection was lost; 0 while it is there.

    Signals:
        state_changed: A `LinkState`.
        changes: A list of WatchRuns records, at most a few hundred at a time.
        pulse: A `Pulse` every two seconds.
    """

    state_changed = Signal(object)
    changes = Signal(list)
    pulse = Signal(object)
    _news = Signal()
    _said = Signal(object)
    _beat = Signal(object)

    def __init__(
        self,
        home: Home,
        start: bool = True,
        elsewhere: Elsewhere | None = None,
        address: str = "",
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.home = home
        self._elsewhere = elsewhere
        self.address = address
        self.name = self.title or HERE
        self.newest: Pulse | None = None
        self.lost_since = 0.0
        self.calls = Calls(self)
        self.state = LinkState(CONNECTING, "Connecting to the trainer daemon …")
        self._start_daemon = start
        self._client: TrainerClient | None = None
        self._clients: set[TrainerClient] = set()
        self._lock = threading.Lock()
        self._pending: list[RunChange] = []
        self._announced = False
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._asked_at = 0.0
        self._threads = [
            threading.Thread(target=self._follow, name="gui-watch", daemon=True),
            threading.Thread(target=self._take_pulse, name="gui-pulse", daemon=True),
        ]
        connect_queued(self._news, self._deliver)
        connect_queued(self._said, self._take_state)
        connect_queued(self._beat, self._take_beat)
        self._slow_timer = QTimer(self)
        self._slow_timer.setInterval(500)
        self._slow_timer.timeout.connect(self._check_slow)

    @property
    def local(self) -> bool:
        """Whether the daemon runs on this machine, for this user: its memory can be shared."""
        return self._elsewhere is None

    @property
    def title(self) -> str:
        """Who is at the other end, if that is not this home's daemon."""
        return self._elsewhere.title if self._elsewhere is not None else ""

    def open(self) -> None:
        """Begin connecting."""
        for thread in self._threads:
            thread.start()
        self._slow_timer.start()

    def close(self) -> None:
        """Disconnect; the daemon and its runs continue."""
        self._stopping.set()
        self._wake.set()
        self._slow_timer.stop()
        with self._lock:
            clients = list(self._clients)
        # Closing its channel is the only way to end a stream that blocks in another thread.
        for client in clients:
            client.close()
        # Before the threads are waited for: one of them may be waiting for ssh.
        if self._elsewhere is not None:
            self._elsewhere.release()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(10)
        self.calls.close()

    def start_daemon(self) -> None:
        """Start a daemon at the next attempt, which is now."""
        self._start_daemon = True
        self._wake.set()

    def ask(
        self,
        question: Callable[[TrainerClient], T],
        done: Callable[[T], object] | None = None,
        failed: Failed | None = None,
    ) -> Call:
        """Ask the daemon something in the background; the answer comes on the GUI thread."""

        def work() -> T:
            client = self._client
            if client is None:
                raise DaemonNotRunningError("the trainer daemon is not connected yet")
            return question(client)

        return self.calls.run(work, done, failed)

    def new_client(self) -> TrainerClient:
        """A connection of its own, for a stream that is ended by closing it; not on this thread."""
        client = self._new_connection(start=False)
        with self._lock:
            self._clients.add(client)
            # `close` may have run between connecting and adding; it would never see this client.
            late = self._stopping.is_set()
        if late:
            client.close()
        return client

    def local_socket(self, path: str) -> str:
        """A socket of this machine that leads to a run's socket; not on the GUI thread.

        Raises:
            UnreachableError: The connection is lost.
        """
        return path if self._elsewhere is None else self._elsewhere.local_socket(path)

    def release(self, client: TrainerClient) -> None:
        """Close a connection made by `new_client`."""
        with self._lock:
            self._clients.discard(client)
        client.close()

    # ------------------------------------------------------------ the watching thread

    def _follow(self) -> None:
        # Kept across reconnections: the same daemon then sends only what was missed.
        generation, since, attempt = "", 0, 0
        while not self._stopping.is_set():
            client = None
            try:
                client = self._connect()
                self._client = client
                attempt = 0
                self._say(CONNECTED, "")
                for change in client.watch(generation, since):
                    # This window was too slow: start over after the last change it got.
                    if isinstance(change, ChangesMissed):
                        since = change.since
                        break
                    generation, since = change.generation, change.sequence
                    self._queue(change)
            except (MosaicError, OSError, ValueError) as error:
                self._say(LOST, _first_line(error))
            finally:
                self._drop(client)
            pause = _RETRY_S[min(attempt, len(_RETRY_S) - 1)]
            attempt += 1
            self._wake.wait(pause)
            self._wake.clear()

    def _connect(self) -> TrainerClient:
        start, self._start_daemon = self._start_daemon, False
        client = self._new_connection(start)
        with self._lock:
            self._clients.add(client)
        return client

    def _new_connection(self, start: bool) -> TrainerClient:
        if self._elsewhere is not None:
            if start:
                self._elsewhere.reach(start=True)
            return TrainerClient.accept(self._elsewhere, self.home)
        return TrainerClient.connect(self.home, start=start)

    def _drop(self, client: TrainerClient | None) -> None:
        self._client = None
        if client is not None:
            self.release(client)

    def _queue(self, change: RunChange) -> None:
        with self._lock:
            self._pending.append(change)
            tell = not self._announced
            self._announced = True
        if tell:
            self._news.emit()

    def _deliver(self) -> None:
        with self._lock:
            batch, self._pending = self._pending[:_BATCH], self._pending[_BATCH:]
            # One signal for many changes: a busy window's event queue must not fill up with them.
            self._announced = bool(self._pending)
        if batch and not self._stopping.is_set():
            self.changes.emit(batch)
        if self._announced:
            # The rest in another turn, so that clicks get their chance in between.
            QTimer.singleShot(0, self._deliver)

    # ------------------------------------------------------------ health

    def _take_pulse(self) -> None:
        while not self._stopping.is_set():
            client = self._client
            if client is not None:
                begun = self._asked_at = time.monotonic()
                try:
                    health = client.health()
                    latency = (time.monotonic() - begun) * 1000
                    self._beat.emit(Pulse(health, client.resources(), latency))
                except (MosaicError, ValueError):
                    pass  # the watching thread says what is wrong
                self._asked_at = 0.0
            self._stopping.wait(_PULSE_S if client is not None else 0.1)

    def _check_slow(self) -> None:
        asked = self._asked_at
        waiting = time.monotonic() - asked if asked else 0.0
        if self.state.name == CONNECTED and waiting > _SLOW_AFTER_S:
            self._take_state(LinkState(SLOW, "The trainer daemon is not answering; waiting for it"))

    def _take_beat(self, beat: Pulse) -> None:
        if self._stopping.is_set():
            return
        if self.state.name == SLOW:
            self._take_state(LinkState(CONNECTED))
        self.newest = beat
        self.pulse.emit(beat)

    def _say(self, name: str, text: str) -> None:
        if not self._stopping.is_set():
            self._said.emit(LinkState(name, text))

    def _take_state(self, state: LinkState) -> None:
        if state != self.state and not self._stopping.is_set():
            if state.name != LOST:
                self.lost_since = 0.0
            elif not self.lost_since:
                # Each attempt that fails says why; the first one says since when.
                self.lost_since = time.time()
            self.state = state
            self.state_changed.emit(state)


def _first_line(error: Exception) -> str:
    return formatting.tilde(str(error).splitlines()[0]) if str(error) else type(error).__name__
