"""Loaded by every interpreter of a fault test: makes saving a checkpoint slow."""

import os
import time

_fsync = os.fsync


def _slow_fsync(descriptor: int) -> None:
    seconds = float(os.environ.get("WORKER_TEST_SLOW_SAVE_S", "0"))
    if seconds and ".state." in os.readlink(f"/proc/self/fd/{descriptor}"):
        time.sleep(seconds)
    _fsync(descriptor)


os.fsync = _slow_fsync
