"""Faults that strike inside the training process, which inherits them from the worker."""

from __future__ import annotations

import errno
import os
import resource
import signal
import time


def kill_at_fsync(number: int) -> None:
    """kill -9 of the training process inside its n-th write to disk."""
    worker, real, count = os.getpid(), os.fsync, 0

    def fsync(descriptor: int) -> None:
        nonlocal count
        if os.getpid() != worker:
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)
        real(descriptor)

    os.fsync = fsync


def slow_fsync(milliseconds: int) -> None:
    """Every write to disk takes its time, as that of a large replay memory does."""
    real = os.fsync

    def fsync(descriptor: int) -> None:
        time.sleep(milliseconds / 1000)
        real(descriptor)

    os.fsync = fsync


def limit_file_size(size: int) -> None:
    """No file may grow beyond so many bytes: what a full disk does to a save."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def full_disk(seconds: int) -> None:
    """The training process finds the disk full, from its first attempt to write for some time."""
    worker, real, began = os.getpid(), os.fsync, 0.0

    def fsync(descriptor: int) -> None:
        nonlocal began
        began = began or time.monotonic()
        if os.getpid() != worker and time.monotonic() - began < seconds:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    os.fsync = fsync
