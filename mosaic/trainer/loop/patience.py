"""How long the queue waits after a launch that failed only because the machine was short."""

import time
from collections.abc import Callable

# Descriptors and processes come and go within a second; a full disk takes a person to clear. So
# the first retry is quick and the waits double, up to what still feels prompt afterwards.
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 30.0


class LaunchPatience:
    """Holds the whole queue back while the machine cannot start anything.

    A shortage is the machine's and not one run's: the next run in the queue would meet it too. So
    all wait with the same reason, and none of them fails for it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wait_s = 0.0
        self._until = 0.0
        self._reason = ""

    def short_of(self, what: str) -> str:
        """A launch failed for want of something; the reason that waiting runs show."""
        # Several runs that were granted slots together fail together: that is one failure.
        if not self.hold():
            self._wait_s = min(max(_FIRST_WAIT_S, 2 * self._wait_s), _LONGEST_WAIT_S)
            self._until = self._clock() + self._wait_s
        self._reason = f"waiting: the machine is short of {what}; the start is tried again"
        return self._reason

    def started(self) -> None:
        """A launch succeeded: the shortage is over."""
        self._wait_s, self._until, self._reason = 0.0, 0.0, ""

    def hold(self) -> str:
        """Why nothing may start now; empty when it may."""
        return self._reason if self._clock() < self._until else ""

    def take_due(self) -> bool:
        """Whether a wait has just ended, so that the queue has to be looked at again."""
        if not self._reason or self.hold():
            return False
        self._reason = ""
        return True
