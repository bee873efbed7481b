"""What time it is for decisions that cannot be taken back, such as emptying the trash.

The wall clock may jump: a wrong date for half a minute must not cost a week's trash. So it is
believed only as far as a clock that cannot be set confirms it.
"""

import json
import time
from dataclasses import asdict, dataclass

from mosaic.system import processes
from mosaic.trainer.storage.registry import Registry

_KEY = "believed_clock"
# A day is the most that one restart of the machine may add: how long it was off no clock tells.
_MOST_PER_RESTART_S = 86_400.0


@dataclass(frozen=True)
class Believed:
    """What was believed at a look.

    Attributes:
        wall: The time.
        since_boot: The clock that counts from the start of the machine, sleep included.
        boot_id: Which start that was.
    """

    wall: float
    since_boot: float
    boot_id: str


def believe(last: Believed | None, seen: Believed) -> Believed:
    """The time to go by, from what was believed last and what the clocks show now.

    It grows at most twice as fast as time passes: a jump forward that stays is caught up with, one
    day a day, and a jump that is taken back does next to nothing. It is never ahead of the wall
    clock: what is stamped after a jump back would seem old otherwise.
    """
    if last is None:
        return seen
    if last.boot_id == seen.boot_id:
        most = 2 * max(0.0, seen.since_boot - last.since_boot)
    else:
        most = _MOST_PER_RESTART_S
    return Believed(min(seen.wall, last.wall + most), seen.since_boot, seen.boot_id)


class BelievedClock:
    """The believed time of a home, kept over restarts of the daemon."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._last: Believed | None = None

    def look(self) -> float:
        """The time to go by now."""
        seen = Believed(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME), processes.boot_id())
        self._last = believe(self._last or self._recalled(), seen)
        self._registry.remember(_KEY, json.dumps(asdict(self._last)))
        return self._last.wall

    def _recalled(self) -> Believed | None:
        try:
            stored = json.loads(self._registry.recall(_KEY))
            return Believed(float(stored["wall"]), float(stored["since_boot"]), stored["boot_id"])
        except (ValueError, TypeError, KeyError):
            return None
