"""Where the training process is, asked from outside while it does not answer.

The worker gives the training process a file in memory and asks by a signal. `faulthandler` writes
the stack from within the signal handler, whatever the process is doing: also in a loop without end
or in C code, where no thread of its own would get a turn.
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import time

VARIABLE = "CLEANRL_STACK_FD"
_SIGNAL = signal.SIGUSR2
_FRAME = re.compile(r'File "(?P<path>[^"]*)", line (?P<line>\d+) in (?P<name>.*)')
# Enough to see which loop it is; the outer frames are the same for every script.
_FRAMES = 3
# The handler writes within milliseconds; only a process that gets no processor needs longer.
_PATIENCE_S = 1.0


def answer_when_asked() -> None:
    """In the training process: from now on the signal writes the stack. Needs the variable."""
    descriptor = os.environ.pop(VARIABLE, "")
    if descriptor.isdigit():
        faulthandler.register(_SIGNAL, file=int(descriptor), all_threads=True)


class StackFile:
    """The worker's end."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("stack")

    def ask(self, pid: int) -> str:
        """Where a process is, innermost first; empty if it does not say."""
        # Without a handler the signal would end the process.
        if not _catches(pid, _SIGNAL):
            return ""
        os.ftruncate(self.descriptor, 0)
        # Both ends share one position in the file.
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        os.kill(pid, _SIGNAL)
        deadline, text = time.monotonic() + _PATIENCE_S, ""
        while time.monotonic() < deadline:
            time.sleep(0.05)
            before, text = text, os.pread(self.descriptor, 1 << 20, 0).decode(errors="replace")
            if text and text == before:
                break
        return innermost(text)

    def close(self) -> None:
        """Free the memory."""
        os.close(self.descriptor)


def innermost(dump: str) -> str:
    """The innermost frames of the main thread, which `faulthandler` writes last."""
    main = dump.rpartition("(most recent call first):")[2]
    frames = [
        f"{os.path.basename(found['path'])}:{found['line']} {found['name']}"
        for found in _FRAME.finditer(main)
    ]
    return ", ".join(frames[:_FRAMES])


def _catches(pid: int, number: int) -> bool:
    try:
        with open(f"/proc/{pid}/status") as status:
            caught = next((line for line in status if line.startswith("SigCgt:")), "SigCgt: 0")
    except OSError:
        return False
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)
