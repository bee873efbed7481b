"""Named places where a rehearsed fault may strike: `MOSAIC_FAULT=after_spawn:kill`.

A fault test kills the daemon exactly between two steps. Without the variable a point costs one
dictionary look-up.
"""

import os
import signal
import time

VARIABLE = "MOSAIC_FAULT"


def point(name: str) -> None:
    """Strike here if the environment says so: `kill` or `sleep<seconds>`."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    place, _, action = wanted.partition(":")
    if place != name:
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action.startswith("sleep"):
        time.sleep(float(action.removeprefix("sleep")))
