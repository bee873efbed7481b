"""Where a script computes: the CPU or a GPU, with how many threads, from which seed."""

from __future__ import annotations

import ctypes
import os
import random
import re
from collections.abc import Collection
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import torch

from cleanrl_worker.kit.args import RunArgs
from cleanrl_worker.kit.errors import UsageError

_NVIDIA = Path("/dev/nvidiactl")
_SETTERS = ("scipy_openblas_set_num_threads64_", "openblas_set_num_threads64_")
_LIBRARY = re.compile(r"(/\S*openblas\S*\.so\S*)$", re.MULTILINE)


def choose_device(args: RunArgs, requires: Collection[str]) -> torch.device:
    """Where torch computes; settles `args.cuda` where it was left open.

    Args:
        args: The script's arguments.
        requires: The requirement sets that the script declares.

    Raises:
        UsageError: A GPU was asked for and torch finds none.
    """
    if "jax" in requires:
        # JAX refuses a GPU that it cannot use by itself, in `kit.jax_backend`.
        args.cuda = _jax_finds_gpu() if args.cuda is None else args.cuda
        return torch.device("cpu")
    found = torch.cuda.is_available()
    if args.cuda and not found:
        raise UsageError(
            "--cuda was asked for, but torch finds no CUDA device here: leave --cuda out to "
            "train on the CPU, or install a CUDA build of torch on a machine with a GPU."
        )
    args.cuda = found if args.cuda is None else args.cuda
    return torch.device("cuda" if args.cuda else "cpu")


def _jax_finds_gpu() -> bool:
    """Whether JAX has its part for CUDA and there is a GPU to see; asks without starting JAX."""
    # A run that reserved no GPU is shown none, on a machine that has some.
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all") in {"", "-1"}
    if hidden or "cuda" not in os.environ.get("JAX_PLATFORMS", "cuda"):
        return False
    plugins = [plugin.name for plugin in entry_points(group="jax_plugins")]
    return any("cuda" in name for name in plugins) and _NVIDIA.exists()


def seed_everything(seed: int, *, deterministic: bool) -> None:
    """Seed every global random generator."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    torch.backends.cudnn.deterministic = deterministic


def limit_threads(count: int) -> None:
    """Let torch and NumPy use so many threads in this process.

    Small networks are fastest on one thread, on a shared machine several times faster.
    """
    torch.set_num_threads(count)
    # NumPy's matrix products use OpenBLAS, which reads its number of threads from the
    # environment when it is loaded. A process that was forked with NumPy in it is past that
    # moment and must call the library itself.
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    except OSError:
        return
    for path in set(_LIBRARY.findall(maps)):
        library = ctypes.CDLL(path)
        for name in _SETTERS:
            if hasattr(library, name):
                getattr(library, name)(ctypes.c_int(count))
