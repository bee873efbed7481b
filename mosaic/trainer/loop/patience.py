"""How long the queue of a site waits after a launch that failed for want of something alone."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from mosaic.config.sites import LOCAL

# Descriptors and processes come and go within a second; a full disk takes a person to clear. So
# the first retry is quick and the waits double, up to what still feels prompt afterwards.
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 30.0


@dataclass
class _Wait:
    """The wait of one site."""

    wait_s: float = 0.0
    until: float = 0.0
    reason: str = ""


class LaunchPatience:
    """Holds the whole queue of a site back while nothing can be started there.

    A shortage is the machine's and not one run's: the next run in the queue would meet it too. So
    all wait with the same reason, and none of them fails for it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waits: dict[str, _Wait] = {}

    def short_of(self, what: str, site: str = LOCAL) -> str:
        """A launch failed for want of something; the reason that waiting runs show."""
        return self.hold_back(
            site, f"waiting: the machine is short of {what}; the start is tried again"
        )

    def hold_back(self, site: str, reason: str) -> str:
        """Start nothing at a site for a while; the reason that waiting runs show."""
        wait = self._waits.setdefault(site, _Wait())
        # Several runs that were granted slots together fail together: that is one failure.
        if not self.hold(site):
            wait.wait_s = min(max(_FIRST_WAIT_S, 2 * wait.wait_s), _LONGEST_WAIT_S)
            wait.until = self._clock() + wait.wait_s
        wait.reason = reason
        return reason

    def started(self, site: str = LOCAL) -> None:
        """A launch succeeded: the shortage is over."""
        self._waits.pop(site, None)

    def hold(self, site: str = LOCAL) -> str:
        """Why nothing may start there now; empty when it may."""
        wait = self._waits.get(site)
        return wait.reason if wait is not None and self._clock() < wait.until else ""

    def take_due(self) -> bool:
        """Whether a wait has just ended, so that the queue has to be looked at again."""
        due = [wait for site, wait in self._waits.items() if wait.reason and not self.hold(site)]
        for wait in due:
            wait.reason = ""
        return bool(due)
