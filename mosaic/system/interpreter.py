"""The end of a forked process that keeps the interpreter of its parent."""

import atexit
import os
import sys
import threading
from typing import NoReturn


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
