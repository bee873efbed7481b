"""JAX as a run needs it: started on the right device, its values saved and restored.

Only algorithm files that learn with JAX import this module; the rest of the kit stays free
of it. `Tree` is to JAX what a module's `state_dict` is to torch: it names every array of
a pytree (parameters, optimiser state, random key), so that a checkpoint of plain tensors
can hold it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import torch

from cleanrl_worker.kit.args import RunArgs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.replay import Batch
from cleanrl_worker.kit.types import StateDict


class MissingJaxError(UsageError, SystemExit):
    """JAX is not installed; ends a script that was started by itself with status 2."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code = 2


try:
    import jax
    import jax.numpy as jnp
    import optax
except ModuleNotFoundError as error:
    sentence = (
        f"This algorithm needs the package {error.name}; install it with: "
        "python -m cleanrl_worker.tools.install_extras --set jax"
    )
    print(f"error: {sentence}", file=sys.stderr, flush=True)
    raise MissingJaxError(sentence) from None

__all__ = [
    "HOST",
    "Array",
    "MissingJaxError",
    "Tree",
    "arrays",
    "jax",
    "jnp",
    "optax",
    "start",
    "trained",
]

Array = jax.Array
# Where a replay memory is kept: JAX brings each batch to its own device.
HOST = torch.device("cpu")

# A tree of arrays: dictionaries, tuples and named tuples of them, nested at will.
Pytree = TypeVar("Pytree")
_PLAIN_PRODUCTS = "--xla_cpu_multi_thread_eigen=false"
_PROCESSORS = "--xla_force_host_platform_device_count"


def start(args: RunArgs, members: int = 1) -> Array:
    """Choose the device before JAX computes anything, and make the first random key.

    Args:
        args: `cuda` chooses the device, `torch_threads` whether XLA may use more than one
            thread, `seed` the key.
        members: How many trainings that know nothing of each other one program does. On the CPU
            threads then share them out, instead of the products of each.

    Returns:
        The random key.

    Raises:
        UsageError: when a GPU was asked for and JAX finds none.
    """
    shared_out = members > 1 and not args.cuda
    if args.torch_threads == 1 or shared_out:
        _use_threads(args.torch_threads)
    # By default JAX takes most of a GPU's memory at once, which other runs may share.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax.config.update("jax_platforms", "cuda,cpu" if args.cuda else "cpu")
    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        jax.config.update("jax_compilation_cache_dir", str(_compiled_before()))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    try:
        jax.devices("cuda" if args.cuda else "cpu")
    except RuntimeError:
        raise UsageError(
            "--cuda was asked for, but JAX finds no CUDA device here: leave --cuda out to train "
            'on the CPU, or install a CUDA build of JAX with: pip install "jax[cuda12]"'
        ) from None
    return jax.random.PRNGKey(args.seed)


def _use_threads(count: int) -> None:
    """Compute in the calling thread, or in so many that each do their own work.

    Sharing out the small products and sums of these networks costs more than it saves: a sum
    over 64k numbers takes three times as long with two threads as with one. So to JAX each
    further thread is a processor of its own, which computes whole members.
    """
    wanted = [_PLAIN_PRODUCTS]
    if count > 1:
        wanted.append(f"{_PROCESSORS}={count}")
    given = os.environ.get("XLA_FLAGS", "")
    # A number of processors that the environment gives stays as it is.
    new = [flag for flag in wanted if flag.partition("=")[0] not in given]
    os.environ["XLA_FLAGS"] = " ".join([given, *new]).strip()
    os.environ.setdefault("PJRT_NPROC", str(count))
    if count == 1:
        jax.config.update("jax_cpu_enable_async_dispatch", False)


def _compiled_before() -> Path:
    """Where compiled functions are kept for the next run on such a processor."""
    home = os.environ.get("MOSAIC_HOME")
    fallback = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(home) / "cache" if home else Path(fallback) / "mosaic"
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        features = next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        features = platform.processor()
    # Code for another processor could stop the program with an illegal instruction.
    kind = hashlib.sha256(features.encode()).hexdigest()[:12]
    return cache / "jax" / f"{jax.__version__}-{platform.machine()}-{kind}"


class Tree(Generic[Pytree]):
    """A pytree of arrays that a checkpoint can hold."""

    def __init__(self, value: Pytree) -> None:
        self.value = value

    @property
    def value(self) -> Pytree:
        """The pytree; assign to it after every update."""
        return self._value

    @value.setter
    def value(self, value: Pytree) -> None:
        self._value = value
        self._arrays: Pytree | None = None

    def numpy(self) -> Pytree:
        """The same pytree as NumPy arrays; on the CPU they share memory with JAX's."""
        if self._arrays is None:
            self._arrays = jax.tree.map(np.asarray, self._value)
        return self._arrays

    def state_dict(self) -> StateDict:
        """Every array under its path in the tree."""
        leaves, _ = jax.tree_util.tree_flatten_with_path(self._value)
        return {jax.tree_util.keystr(path): np.array(leaf) for path, leaf in leaves}

    def load_state_dict(self, state: StateDict) -> None:
        """Put the saved arrays in the places of the present ones."""
        self.value = jax.tree.map(jnp.asarray, _fill(self._value, state))


def trained(init: Callable[[Array], Pytree], saved: StateDict) -> Pytree:
    """The saved parameters of a policy as NumPy arrays, without computing anything.

    Args:
        init: makes such parameters from a random key; gives the structure.
        saved: what `Tree.state_dict` gave.
    """
    filled: Pytree = _fill(jax.eval_shape(init, jax.ShapeDtypeStruct((2,), np.uint32)), saved)
    return filled


def arrays(batch: Batch) -> dict[str, np.ndarray]:
    """A batch of the replay memory as NumPy arrays of their own.

    JAX reads its arguments in place while the loop already continues, so they must not be
    the memory that the next batch is drawn into.
    """
    return {field.name: getattr(batch, field.name).numpy().copy() for field in fields(batch)}


def _fill(template: Pytree, saved: StateDict) -> Pytree:
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    paths = {jax.tree_util.keystr(path): leaf for path, leaf in leaves}
    if paths.keys() != saved.keys():
        odd = sorted(paths.keys() ^ saved.keys())
        raise RuntimeError(f"the saved arrays have other names: {', '.join(odd)}")
    for path, leaf in paths.items():
        if tuple(saved[path].shape) != tuple(np.shape(leaf)):
            raise RuntimeError(
                f"size mismatch for {path}: saved {tuple(saved[path].shape)}, "
                f"needed {tuple(np.shape(leaf))}"
            )
    filled = [saved[path].numpy().astype(leaf.dtype, copy=False) for path, leaf in paths.items()]
    whole: Pytree = jax.tree_util.tree_unflatten(structure, filled)
    return whole
