"""How many threads torch and NumPy may use.

Small networks are fastest on one thread, and on a shared machine several times faster. NumPy's
matrix products use OpenBLAS, whose number of threads is fixed by the environment when it is
loaded; a process that was forked with NumPy in it can only be told afterwards.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import torch

_SETTERS = ("scipy_openblas_set_num_threads64_", "openblas_set_num_threads64_")
_LIBRARY = re.compile(r"(/\S*openblas\S*\.so\S*)$", re.MULTILINE)


def limit_threads(count: int) -> None:
    """Let torch and NumPy use so many threads in this process."""
    torch.set_num_threads(count)
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    except OSError:
        return
    for path in set(_LIBRARY.findall(maps)):
        library = ctypes.CDLL(path)
        for name in _SETTERS:
            if hasattr(library, name):
                getattr(library, name)(ctypes.c_int(count))
