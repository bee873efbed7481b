"""The line between a script and the worker that started it.

JSON lines over a socket whose descriptor is in `CLEANRL_BRIDGE_FD`. Without that variable there is
no worker: nothing is sent, and the script runs the same.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import socket
import threading
from collections import deque

VARIABLE = "CLEANRL_BRIDGE_FD"
# Where a training process writes its curves; the run directory where it is not set.
CURVES_DIR = "MOSAIC_CURVES_DIR"
METRICS = "metrics"


def without_bridge() -> dict[str, str]:
    """The environment for a process that a script starts: bridge, metrics and frames stay here."""
    own = (VARIABLE, CURVES_DIR, "MOSAIC_RUN_DIR", "CLEANRL_FASTLANE_MODE")
    return {name: value for name, value in os.environ.items() if name not in own}


class Bridge:
    """Sends events to the worker and receives its commands. Sending never waits for the worker.

    What a busy or stopped worker does not read yet is kept here and follows later: every event, but
    of the metrics only the newest. A process has one bridge: two would mix their lines.

    Attributes:
        lost: Whether the worker has gone.
    """

    def __init__(self) -> None:
        descriptor = os.environ.get(VARIABLE)
        self._socket = socket.socket(fileno=int(descriptor)) if descriptor else None
        # W&B's thread sends notes while the training loop sends metrics.
        self._lock = threading.Lock()
        # The part of a line that the socket has not taken: its rest must be the next thing sent.
        self._begun = b""
        # Grows by a few lines a minute at most: notes, stages, checkpoints, answers.
        self._events: deque[bytes] = deque()
        self._newest_metrics = b""
        self._unread = b""
        self.lost = False
        if self._socket is not None:
            # However a script ends, its last words are delivered.
            atexit.register(self.drain)

    @property
    def connected(self) -> bool:
        """Whether a worker listens."""
        return self._socket is not None and not self.lost

    def send(self, event: str, **fields: object) -> None:
        """Tell the worker something, now or as soon as it reads again."""
        if not self.connected:
            return
        text = json.dumps({"event": event, **fields}, allow_nan=False, default=str)
        line = text.encode() + b"\n"
        with self._lock:
            if event == METRICS:
                self._newest_metrics = line
            else:
                self._events.append(line)
            self._push()

    def commands(self) -> list[str]:
        """The commands that have arrived, in order, without waiting."""
        if self._unsent:
            with self._lock:
                self._push()
        return self._receive()

    def wait(self) -> list[str]:
        """Wait for at least one command; an empty list means that the worker is gone."""
        while self._socket is not None and not self.lost:
            # A paused script has answers to deliver too: both directions, or both would wait.
            writing = [self._socket] if self._unsent else []
            readable, writable, _ = select.select([self._socket], writing, [])
            if writable:
                with self._lock:
                    self._push()
            if readable and (found := self._receive()):
                return found
        return []

    def drain(self) -> None:
        """Wait until the worker has read everything, or is gone; called when the process exits."""
        # No time limit: nothing is left to train, and a worker that never reads again is ended
        # by its supervisor, which closes the socket.
        while self._socket is not None and not self.lost and self._unsent:
            select.select([], [self._socket], [])
            with self._lock:
                self._push()

    @property
    def _unsent(self) -> bool:
        return bool(self._begun or self._events or self._newest_metrics)

    def _push(self) -> None:
        """Give the socket as many lines as it takes now. Needs the lock."""
        while self._socket is not None and not self.lost and self._unsent:
            if not self._begun and self._events:
                self._begun = self._events.popleft()
            elif not self._begun:
                self._begun, self._newest_metrics = self._newest_metrics, b""
            try:
                taken = self._socket.send(self._begun, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                self.lost = True
                return
            self._begun = self._begun[taken:]

    def _receive(self) -> list[str]:
        if self._socket is None or self.lost:
            return []
        try:
            chunk = self._socket.recv(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except OSError:
            chunk = b""
        if not chunk:
            self.lost = True
            return []
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        found = []
        for line in lines:
            with contextlib.suppress(ValueError, AttributeError):
                found.append(str(json.loads(line).get("command", "")))
        return [command for command in found if command]
