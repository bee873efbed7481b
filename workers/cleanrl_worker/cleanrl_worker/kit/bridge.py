"""The line between a script and the worker that started it.

JSON lines over a socket whose descriptor stands in ``CLEANRL_BRIDGE_FD``. Without that
variable nobody listens and nothing is sent; the script runs the same.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from typing import Any

VARIABLE = "CLEANRL_BRIDGE_FD"


def without_bridge() -> dict[str, str]:
    """The environment for a process that a script starts: bridge, metrics and frames stay here."""
    own = (VARIABLE, "MOSAIC_RUN_DIR", "CLEANRL_FASTLANE_MODE")
    return {name: value for name, value in os.environ.items() if name not in own}


class Bridge:
    """Sends events to the worker and receives its commands; never blocks on sending."""

    def __init__(self) -> None:
        descriptor = os.environ.get(VARIABLE)
        self._socket = socket.socket(fileno=int(descriptor)) if descriptor else None
        self._unread = b""
        self.lost = False

    @property
    def connected(self) -> bool:
        """Whether somebody listens."""
        return self._socket is not None and not self.lost

    def send(self, event: str, **fields: Any) -> None:
        """Tell the worker something; a worker that is gone is noticed, not waited for."""
        if not self.connected:
            return
        line = json.dumps({"event": event, **fields}, allow_nan=False, default=str) + "\n"
        try:
            self._socket.setblocking(True)
            self._socket.sendall(line.encode())
        except OSError:
            self.lost = True

    def commands(self) -> list[str]:
        """The commands that have arrived, in order, without waiting."""
        return self._receive(block=False)

    def wait(self) -> list[str]:
        """Wait for at least one command; an empty list means that the worker is gone."""
        while self.connected:
            if found := self._receive(block=True):
                return found
        return []

    def _receive(self, *, block: bool) -> list[str]:
        if not self.connected:
            return []
        try:
            chunk = self._socket.recv(65536, 0 if block else socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError:
            self.lost = True
            return []
        if not chunk:
            self.lost = True
            return []
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        found = []
        for line in lines:
            with contextlib.suppress(ValueError, AttributeError):
                found.append(str(json.loads(line).get("command", "")))
        return [command for command in found if command]
