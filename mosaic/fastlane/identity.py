"""Who a process is: its id together with its start time and the machine's boot.

A process id alone is reused by the system; the three together name one process for good.
"""

import os
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple


class ProcessIdentity(NamedTuple):
    """One process, told apart from any later one that gets the same id."""

    pid: int
    start_ticks: int
    boot: int


def this_process() -> ProcessIdentity:
    """Return the identity of the calling process."""
    pid = os.getpid()
    return ProcessIdentity(pid, _start_ticks(pid) or 0, _boot_number())


def is_running(process: ProcessIdentity) -> bool:
    """Tell whether exactly this process still runs; a zombie does not."""
    return process.boot == _boot_number() and _start_ticks(process.pid) == process.start_ticks


def _start_ticks(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The command name may hold spaces and brackets: everything after the last one is regular.
    fields = text[text.rindex(b")") + 1 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


@lru_cache(maxsize=1)
def _boot_number() -> int:
    text = Path("/proc/sys/kernel/random/boot_id").read_text()
    return int(text.strip().replace("-", "")[:16], 16)
