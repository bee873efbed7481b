"""What the worker and the user ask of a running program: go, pause, resume, checkpoint, stop."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

from cleanrl_worker.running.bridge import Bridge

# How often a program looks up from its work. Commands are obeyed within this time, and twenty looks
# a second are too few for the fastest loop to notice.
_LOOK_EVERY_S = 0.05
# How long a program may take from a signal to its next safe point; the daemon kills it after 30
# seconds, and a program of its own would otherwise never end.
PATIENCE_S = 20.0


class Stopped(SystemExit):
    """The program was asked to stop before its end; carries the exit status."""

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__(128 + number)


class Control:
    """Obeys the worker between two steps; without a worker, only signals.

    Args:
        bridge: The line to the worker.
        save: Writes a checkpoint and returns why it could not; called on request, and before a
            pause, which may never end.
        report: Sends the newest numbers; called before a pause, during which none follow.
        step: The step that has been reached.
        hold: Holds what runs beside the program, with True before a pause is told and with False
            when it is over.
    """

    def __init__(
        self,
        bridge: Bridge,
        save: Callable[[], str] = lambda: "this program has nothing to save",
        report: Callable[[], None] = lambda: None,
        step: Callable[[], int] = lambda: 0,
        hold: Callable[[bool], None] = lambda _on: None,
    ) -> None:
        self.bridge = bridge
        self._save = save
        self._report = report
        self._step = step
        self._hold = hold
        self._signal: int | None = None
        self._stop = False
        self._early: list[str] = []
        self._next_look = 0.0
        self._impatience: threading.Timer | None = None

    def start(self) -> None:
        """Wait until the worker says go, then listen to signals.

        Before go a signal simply ends the process: there is nothing to save.

        Raises:
            Stopped: The worker said stop, or is gone.
        """
        while self.bridge.connected:
            commands = self.bridge.wait()
            if "stop" in commands:
                raise Stopped()
            if "go" in commands:
                # What arrived in the same moment is obeyed at the first safe point.
                self._early = [command for command in commands if command != "go"]
                break
        if self.bridge.lost:
            raise Stopped()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note_signal)

    @property
    def stopping(self) -> bool:
        """Whether the program is to end: it was told to, got a signal, or has lost its worker."""
        return self._stop or self._signal is not None or self.bridge.lost

    @property
    def due(self) -> bool:
        """Whether it is time to look up; cheap enough for every turn of a loop."""
        return time.monotonic() >= self._next_look or self._signal is not None

    def obey(self) -> float:
        """Carry out the commands that have arrived.

        Returns:
            The seconds that were spent in a pause.
        """
        if self._impatience is not None:
            # A safe point is reached: saving may now take as long as it needs.
            self._impatience.cancel()
        early, self._early = self._early, []
        paused = 0.0
        for command in (*early, *self.bridge.commands()):
            if command == "checkpoint":
                self._save_as_asked()
            elif command == "stop":
                self._stop = True
            elif command == "pause":
                paused += self._pause()
        self._next_look = time.monotonic() + _LOOK_EVERY_S
        return paused

    def safe_point(self) -> None:
        """For programs that have nothing to save: obey if it is time to.

        Raises:
            Stopped: The program is to end.
        """
        if self.due:
            self.obey()
            if self.stopping:
                raise self.stopped()

    def stopped(self) -> Stopped:
        """The exit of a program that was told to stop."""
        return Stopped(self._signal or signal.SIGTERM)

    def _pause(self) -> float:
        began = time.monotonic()
        # Saved before the worker hears that the run is paused: from then on it may be killed
        # without losing anything.
        self._save()
        self._report()
        self._hold(True)
        self.bridge.send("paused", step=self._step())
        while not self._stop:
            commands = self.bridge.wait()
            if not commands or "stop" in commands or self._signal is not None:
                self._stop = True
            elif "checkpoint" in commands:
                self._save_as_asked()
            if "resume" in commands:
                break
        # Also before a stop: a process that is held cannot end by itself.
        self._hold(False)
        if not self._stop:
            self.bridge.send("resumed", step=self._step())
        return time.monotonic() - began

    def _save_as_asked(self) -> None:
        """Save and answer: the daemon waits for one or the other."""
        if problem := self._save():
            self.bridge.send("refused", reason=problem)
        else:
            self.bridge.send("checkpointed", step=self._step())

    def _note_signal(self, number: int, frame: FrameType | None) -> None:
        if self._signal is not None:
            # A second Ctrl-C is a person who will not wait. A second SIGTERM is not: a phase of a
            # script hears it from the daemon, with the whole group, and from the script's worker.
            if number == signal.SIGINT:
                _end_now(number, "it was asked to twice")
            return
        self._signal = number
        # A thread, because a turn of the loop that never ends never looks at anything again.
        late = f"no safe point was reached within {PATIENCE_S:g} seconds"
        self._impatience = threading.Timer(PATIENCE_S, _end_now, (number, late))
        self._impatience.daemon = True
        self._impatience.start()


def _end_now(number: int, reason: str) -> None:
    print(f"ended without saving: {reason}", file=sys.stderr, flush=True)
    os._exit(128 + number)
