"""Forked processes that keep the interpreter of their parent: how old it is, how they end."""

import atexit
import os
import sys
import threading
import time
from typing import NoReturn

from mosaic.system.processes import start_time


def _began_ns() -> int:
    started, age_ns = start_time(os.getpid()), 0
    if started is not None:
        ticks_ns = 10**9 // os.sysconf("SC_CLK_TCK")
        age_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - started * ticks_ns
    return time.time_ns() - age_ns


BEGAN_NS = _began_ns()
"""When this interpreter began, by the clock of files. In a process that was forked after this
module was imported, when the first of its ancestors with the same modules did."""


def exit_code(stop: SystemExit) -> int:
    """The exit status that Python gives for a `SystemExit`; a text is printed first, as it does."""
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 0xFF
    print(stop.code, file=sys.stderr)
    return 1


def end_forked(code: int) -> NoReturn:
    """End a forked process as an interpreter would: threads joined, exit handlers run.

    Returning into the code that forked would run the parent's own `finally` blocks a second
    time, and `os._exit` alone would lose what is still in buffers. CPython offers the steps in
    between only under private names.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        # A full disk or a closed stream: the exit code still has to arrive.
        except (OSError, ValueError):
            pass
    os._exit(code)
