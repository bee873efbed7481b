"""Who a process is: its id together with its start time and the machine's boot.

A process id alone is reused by the system; the three together name one process for good.
"""

import os
from functools import lru_cache
from typing import NamedTuple

from mosaic.system.processes import boot_id, start_time


class ProcessIdentity(NamedTuple):
    """One process, distinct from any later one with the same id."""

    pid: int
    start_ticks: int
    boot: int


def this_process() -> ProcessIdentity:
    """Return the identity of the calling process."""
    pid = os.getpid()
    return ProcessIdentity(pid, start_time(pid) or 0, _boot_number())


def is_running(process: ProcessIdentity) -> bool:
    """Tell whether exactly this process still runs; a zombie does not."""
    return process.boot == _boot_number() and start_time(process.pid) == process.start_ticks


@lru_cache(maxsize=1)
def _boot_number() -> int:
    # Half of it fits into one word of the shared memory, and is unique enough.
    return int(boot_id().replace("-", "")[:16], 16)
