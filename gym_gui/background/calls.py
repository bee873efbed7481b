"""Short pieces of work off the GUI thread, their results back on it."""

import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from qtpy.QtCore import QObject, Qt, Signal

T = TypeVar("T")
Failed = Callable[[Exception], object]
_THREADS = 6
# A call to the daemon ends within a second; what takes longer is dropped with the process.
_CLOSE_S = 3.0


class _Connectable(Protocol):
    def connect(self, slot: Callable[..., object], type: Qt.ConnectionType) -> object: ...


def connect_queued(signal: Any, slot: Callable[..., object]) -> None:
    """Deliver a signal on its receiver's thread, later, even when it was sent from there."""
    connectable: _Connectable = signal  # PyQt's own stubs leave the second argument out
    connectable.connect(slot, Qt.ConnectionType.QueuedConnection)


class Call:
    """One piece of work under way; `cancel` drops its result."""

    def __init__(
        self,
        done: Callable[[Any], object] | None,
        failed: Failed | None,
        stop: Callable[[], object] | None = None,
    ) -> None:
        self._done = done
        self._failed = failed
        self._stop = stop
        self.cancelled = False

    def cancel(self) -> None:
        """Drop the result when it comes, and stop the work where that is possible."""
        self.cancelled = True
        if self._stop is not None:
            self._stop()
        # A thread that is still at work must not be the last to hold a widget: where that thread
        # let the widget go, Qt would destroy it outside the GUI thread.
        self._done = self._failed = None

    def settle(self, result: object, error: Exception | None) -> None:
        """Hand the outcome to the one who asked; on the GUI thread."""
        if self.cancelled:
            return
        if error is None:
            if self._done is not None:
                self._done(result)
        elif self._failed is not None:
            self._failed(error)


class Calls(QObject):
    """Runs functions in a few threads and delivers their outcome on the GUI thread.

    Signals:
        unexpected: An error that no caller handles.
    """

    unexpected = Signal(str)
    _settled = Signal(object, object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closed = False
        self._under_way: set[Call] = set()
        connect_queued(self._settled, self._settle)

    def run(
        self,
        work: Callable[[], T],
        done: Callable[[T], object] | None = None,
        failed: Failed | None = None,
        stop: Callable[[], object] | None = None,
    ) -> Call:
        """Run `work` in a thread; `done(result)` or `failed(error)` follow on the GUI thread.

        Args:
            work: What to do.
            done: Gets the result.
            failed: Gets the error.
            stop: Ends the work early, from another thread: for work that waits for a program of its
                own. Without it the work of a cancelled call runs to its end.
        """
        call = Call(done, failed or self._report, stop)
        if self._closed:
            call.cancel()
            return call

        def job() -> None:
            if call.cancelled:
                self._under_way.discard(call)
                return
            result: T | None = None
            problem: Exception | None = None
            try:
                result = work()
            except Exception as error:
                problem = error
            if not self._closed:
                self._settled.emit(call, result, problem)

        self._under_way.add(call)
        if len(self._threads) < _THREADS:
            # Daemon threads: a long job must not keep a closed window's process alive.
            thread = threading.Thread(target=self._work, name="gui-call", daemon=True)
            thread.start()
            self._threads.append(thread)
        self._jobs.put(job)
        return call

    def close(self) -> None:
        """Start nothing new, wait a little for what runs, deliver nothing more."""
        self._closed = True
        for call in list(self._under_way):
            call.cancel()
        self._under_way.clear()
        for _ in self._threads:
            self._jobs.put(None)
        deadline = time.monotonic() + _CLOSE_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if not self._closed:
                job()

    def _settle(self, call: Call, result: object, error: Exception | None) -> None:
        self._under_way.discard(call)
        if not self._closed:
            call.settle(result, error)

    def _report(self, error: Exception) -> None:
        self.unexpected.emit(str(error))
