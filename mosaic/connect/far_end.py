"""The other end of an ssh connection: a command that answers lines with lines."""

import os
import select
import sys
from collections.abc import Iterator

_QUIET_S = 10.0


def questions() -> Iterator[str]:
    """The lines of the input, until it ends.

    A machine that asks may vanish without a word, when the network between is lost. sshd learns of
    that only when it has something to send, so an empty line is printed now and then. Without it
    this process would never end.
    """
    descriptor, begun = sys.stdin.fileno(), b""
    while True:
        ready, _, _ = select.select([descriptor], [], [], _QUIET_S)
        if not ready:
            print(flush=True)
            continue
        read = os.read(descriptor, 1 << 16)
        if not read:
            break
        *lines, begun = (begun + read).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)
    if begun:
        yield begun.decode(errors="replace")
