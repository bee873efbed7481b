"""A program's ear for the worker: go, pause, resume, stop, between two steps."""

from __future__ import annotations

import signal
import time
from types import FrameType

from cleanrl_worker.kit.bridge import Bridge
from cleanrl_worker.kit.run import Stopped

_LOOK_EVERY_S = 0.05


class Control:
    """Obeys the worker; without one, only signals."""

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge
        self._signal: int | None = None
        self._next_look = 0.0
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)
        self._wait_for("go")

    def safe_point(self) -> None:
        """Call often; returns at once unless there is something to obey.

        Raises:
            Stopped: The program is to end.
        """
        if time.monotonic() < self._next_look and self._signal is None:
            return
        self._next_look = time.monotonic() + _LOOK_EVERY_S
        commands = self.bridge.commands()
        if self._signal is not None or "stop" in commands or self.bridge.lost:
            raise Stopped(128 + (self._signal or signal.SIGTERM))
        if "pause" in commands and "resume" not in commands:
            self.bridge.send("paused")
            self._wait_for("resume")
            self.bridge.send("resumed")

    def _wait_for(self, wanted: str) -> None:
        while self.bridge.connected:
            commands = self.bridge.wait()
            if "stop" in commands or self._signal is not None:
                raise Stopped(128 + (self._signal or signal.SIGTERM))
            if wanted in commands:
                return
        if self.bridge.lost:
            raise Stopped(128 + signal.SIGTERM)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._signal = number
