"""Short pieces of work off the GUI thread, their results back on it."""

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from qtpy.QtCore import QObject, Qt, Signal

_THREADS = 6
_CLOSE_S = 3.0


class Call:
    """One piece of work under way; `cancel` means that nobody wants the result any more."""

    def __init__(
        self,
        done: Callable[[Any], None] | None,
        failed: Callable[[Exception], None] | None,
    ) -> None:
        self._done = done
        self._failed = failed
        self.cancelled = False

    def cancel(self) -> None:
        """Drop the result when it comes."""
        self.cancelled = True

    def settle(self, result: Any, error: Exception | None) -> None:
        """Hand the outcome to whoever asked; on the GUI thread."""
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
        unexpected: An error that nobody asked to hear about.
    """

    unexpected = Signal(str)
    _settled = Signal(object, object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closed = False
        self._settled.connect(self._settle, Qt.ConnectionType.QueuedConnection)

    def run(
        self,
        work: Callable[[], Any],
        done: Callable[[Any], None] | None = None,
        failed: Callable[[Exception], None] | None = None,
    ) -> Call:
        """Run `work` in a thread; `done(result)` or `failed(error)` follow on the GUI thread."""
        call = Call(done, failed or self._report)
        if self._closed:
            call.cancel()
            return call

        def job() -> None:
            if call.cancelled:
                return
            try:
                result, error = work(), None
            except Exception as problem:
                result, error = None, problem
            if not self._closed:
                self._settled.emit(call, result, error)

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
        for _ in self._threads:
            self._jobs.put(None)
        deadline = time.monotonic() + _CLOSE_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if not self._closed:
                job()

    def _settle(self, call: Call, result: Any, error: Exception | None) -> None:
        if not self._closed:
            call.settle(result, error)

    def _report(self, error: Exception) -> None:
        self.unexpected.emit(str(error))
