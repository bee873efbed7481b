"""Keeps the memory that an update frees, so that the next one need not ask the system for it."""

from __future__ import annotations

import ctypes
import os

# By their numbers in malloc.h, and by the names under which a new process reads them.
_LARGEST_FROM_HEAP = (-3, "MALLOC_MMAP_THRESHOLD_", 32 << 20)
_MOST_KEPT = (-1, "MALLOC_TRIM_THRESHOLD_", 512 << 20)


def keep_freed_memory() -> None:
    """Let the C library keep up to 512 MB that are free, here and in the processes started here.

    Learning from pictures takes and frees a hundred megabytes in every update. Given back to the
    system, they come back as empty pages, one fault each: about a tenth of the processor time of
    `ppo_atari_multigpu` in one process. Blocks above 32 MB, the most that the C library allows,
    still come and go.

    Nothing is changed where one of the variables is set, or where the C library is another.
    """
    options = (_LARGEST_FROM_HEAP, _MOST_KEPT)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or any(name in os.environ for _, name, _ in options):
        return
    for number, name, value in options:
        mallopt(number, value)
        os.environ[name] = str(value)
