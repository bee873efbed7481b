"""`python -m gym_gui.background.dies_with_parent COMMAND …`: a helper that ends with its parent.

A helper of the window (TensorBoard) must not stay behind when the window is killed. The kernel
sends the signal; nothing has to be alive to clean up.
"""

import ctypes
import os
import signal
import sys

_SET_PARENT_DEATH_SIGNAL = 1


def main() -> None:
    """Tie this process to its parent and become the command."""
    parent = os.getppid()
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
    # The parent may have died before the signal was asked for; then it would never come.
    if os.getppid() != parent:
        raise SystemExit(1)
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
