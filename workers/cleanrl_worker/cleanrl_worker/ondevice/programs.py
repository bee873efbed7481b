"""Compiled programs of earlier runs: a second start of the same shapes does not trace again.

JAX has a cache of its own, but asks it with the lowered program: to find out that a program is
there, JAX traces and lowers it first, which takes longer than loading it. Here a program is found
by what it would be made from: the settings that shape it, the devices, JAX's own settings, and
every module that was loaded when it was made, as it is on the disk now. Where any file is not as it
was, the program is traced and lowered again, and compiled if that gives another one.

Only on a CPU: elsewhere this was not tried, and compiling takes so long that tracing is not felt.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from jax.experimental import serialize_executable
from jax.experimental.compilation_cache import compilation_cache
from jaxlib import lapack

from cleanrl_worker.kit.args import DeviceArgs
from cleanrl_worker.kit.jax_backend import jax
from cleanrl_worker.ondevice import registry
from cleanrl_worker.ondevice.devices import Spread
from cleanrl_worker.ondevice.inputs import shaping_settings
from mosaic.curves.members import Member
from mosaic.system.atomic import write_bytes
from mosaic.system.interpreter import BEGAN_NS

Compiled: TypeAlias = Any
"""A compiled function of JAX."""
Seen: TypeAlias = dict[str, tuple[int, int]]
"""Files with their size and the time of their last change."""

# JAX reads them once, when it is imported: a process that is forked later cannot change them.
VARIABLES_READ = {name: value for name, value in os.environ.items() if name.startswith("JAX_")}

# Calls of functions in lowered programs, and those that only say which device has which part.
_CALL = re.compile(r"custom_call @([\w.$]+)")
_SHARDING = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape")
_DIGEST = hashlib.sha256().digest_size
# Each has a few megabytes; people try many shapes and come back to few.
_MOST_KEPT = 32


class Lowered(NamedTuple):
    """What one run calls, traced and lowered, not compiled."""

    begin: jax.stages.Lowered
    """from the numbers and a seed to the first state of one member"""
    chunk: jax.stages.Lowered
    """from the states of all members to those some updates later"""


class Programs(NamedTuple):
    """The same, compiled."""

    begin: Compiled
    chunk: Compiled
    needed: int
    """the bytes that a chunk needs on one device"""


class Stored(NamedTuple):
    """A file of the cache."""

    seen: Seen | None
    """the code as it was; None where that could not be said"""
    lowered: str
    """which programs they are, whatever code made them"""
    written: bytes
    """the programs"""


def found_or_made(
    args: DeviceArgs, members: Sequence[Member], spread: Spread, lower: Callable[[], Lowered]
) -> Programs:
    """The programs of this run, made now unless an earlier run has left them.

    Args:
        args: The run's arguments.
        members: What it trains.
        spread: The devices that its chunks run on.
        lower: Traces and lowers them.
    """
    devices = spread.devices
    folder = _folder(args)
    if folder is None or devices[0].platform != "cpu":
        return _compiled(lower())
    path = folder / _key(args, members, devices)
    stored = read(path)
    if stored is not None and stored.seen is not None and stored.seen == as_now(stored.seen):
        if (found := load(stored.written, devices)) is not None:
            return found
        stored = None
    return _made(path, lower(), stored, devices)


def _made(
    path: Path, lowered: Lowered, stored: Stored | None, devices: Sequence[jax.Device]
) -> Programs:
    """Compile programs, or take those of the cache if other code would give the same ones."""
    if not can_be_kept(lowered):
        return _compiled(lowered)
    name = _name(lowered)
    if stored is not None and stored.lowered == name:
        found, written = load(stored.written, devices), stored.written
    else:
        found, written = None, b""
    if found is None:
        with _without_cache():
            found = _compiled(lowered)
        written = write(found)
    keep(path, Stored(as_now(loaded_files()), name, written))
    return found


def _compiled(lowered: Lowered) -> Programs:
    begin, chunk = lowered.begin.compile(), lowered.chunk.compile()
    return Programs(begin, chunk, _bytes_of(chunk.memory_analysis()))


class _MemoryStats(Protocol):
    argument_size_in_bytes: int
    output_size_in_bytes: int
    temp_size_in_bytes: int
    alias_size_in_bytes: int


def _bytes_of(analysis: _MemoryStats | None) -> int:
    """What a compiled program needs; the new state takes the place of the old one."""
    if analysis is None:
        return 0
    whole = analysis.argument_size_in_bytes + analysis.output_size_in_bytes
    return whole + analysis.temp_size_in_bytes - analysis.alias_size_in_bytes


@contextmanager
def _without_cache() -> Iterator[None]:
    """Compile without JAX's own cache.

    A program that was read from there can be called, but not written again: XLA then forgets the
    names of its functions, and calling what was written fails.
    """
    jax.config.update("jax_enable_compilation_cache", False)
    # JAX asks for the setting once and remembers the answer.
    compilation_cache.reset_cache()
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", True)
        compilation_cache.reset_cache()


def _folder(args: DeviceArgs) -> Path | None:
    """Where programs are kept; None where what shapes them cannot be known."""
    # Where compiled code is kept for one version of JAX on one kind of processor. A folder that
    # the user has named instead may be shared by several kinds; JAX knows what to do there.
    told = jax.config.values
    if not told["jax_enable_compilation_cache"] or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return None
    # A process that is more than the algorithm, such as a test, may have replaced functions that
    # the program is made of, and only files can be compared.
    if type(args).__module__ != "__main__":
        return None
    # An environment of the user's may depend on anything: a file, a variable, the hour.
    if not registry.is_ours(vars(args)["env_id"]):
        return None
    return Path(str(told["jax_compilation_cache_dir"])) / "programs"


def _key(args: DeviceArgs, members: Sequence[Member], devices: Sequence[jax.Device]) -> str:
    """A name for everything that shapes the programs, apart from the code."""
    # XLA is told by variables what JAX is told by its settings.
    told = [item for item in os.environ.items() if item[0].startswith(("JAX_", "XLA_", "PJRT_"))]
    # Which installation this is: the files of another one may be unchanged too.
    where = [getattr(sys.modules[name], "__file__", "") for name in ("__main__", __name__, "jax")]
    shaping = [
        [os.path.abspath(file) for file in where],
        sys.version,
        sorted(shaping_settings(args).items()),
        len(members),
        sorted(members[0].point),
        [(one.platform, one.device_kind, one.id) for one in devices],
        len(jax.devices()),
        devices[0].client.platform_version,
        sorted((name, repr(value)) for name, value in jax.config.values.items()),
        sorted(told),
    ]
    return hashlib.sha256(repr(shaping).encode()).hexdigest()


def _name(lowered: Lowered) -> str:
    digest = hashlib.sha256()
    for one in lowered:
        digest.update(one.as_text().encode())
        digest.update(b"\0")
    return digest.hexdigest()


def can_be_kept(lowered: Lowered) -> bool:
    """Whether programs can be written, and call no functions but those that `load` prepares.

    One that calls Python, to print a value for instance, holds an address in this process.
    """
    called = {name for one in lowered for name in _CALL.findall(one.as_text())}
    try:
        pickle.dumps([(one.in_tree, one.out_tree) for one in lowered])
    # A state with parts that pickle does not know; which error depends on the part.
    except Exception:
        return False
    return all(name in _SHARDING or name.startswith("lapack_") for name in called)


def write(programs: Programs) -> bytes:
    """Programs as they are stored."""
    parts = [serialize_executable.serialize(one) for one in (programs.begin, programs.chunk)]
    return pickle.dumps((*parts, programs.needed))


def load(written: bytes, devices: Sequence[jax.Device]) -> Programs | None:
    """Programs that `write` wrote; None when they cannot be used here."""
    # Whatever goes wrong, such as a class that cannot be found: they are made again.
    try:
        begin, chunk, needed = pickle.loads(written)
        # JAX looks up LAPACK's functions when it lowers a call of one, and only then.
        prepare: Callable[..., object] = lapack.prepare_lapack_call
        prepare("geqrf_ffi", np.dtype(np.float32))
        load_one = partial(serialize_executable.deserialize_and_load, backend=devices[0].client)
        return Programs(
            load_one(*begin, execution_devices=devices[:1]),
            load_one(*chunk, execution_devices=devices),
            needed,
        )
    except Exception:
        return None


def read(path: Path) -> Stored | None:
    """A file of the cache; None if there is none or it is damaged."""
    try:
        content = path.read_bytes()
        # The least recently used are removed first.
        os.utime(path)
    except OSError:
        return None
    digest, content = content[:_DIGEST], content[_DIGEST:]
    # Before anything is read: damaged machine code does not fail, it does something else.
    if hashlib.sha256(content).digest() != digest:
        return None
    # Written by another version of this module, in any form.
    try:
        return Stored(*pickle.loads(content))
    except Exception:
        return None


def keep(path: Path, stored: Stored) -> None:
    """Write a file of the cache."""
    content = pickle.dumps(tuple(stored))
    # A full disk costs the next start its seconds, not this run.
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, hashlib.sha256(content).digest() + content, mode=0o600)
        by_use = sorted(path.parent.iterdir(), key=lambda one: one.stat().st_mtime, reverse=True)
        for old in by_use[_MOST_KEPT:]:
            old.unlink(missing_ok=True)


def loaded_files() -> list[str]:
    """The files of all modules of this process, whatever they are for."""
    # Not by `getattr`, for which some modules import others.
    found = (getattr(module, "__dict__", {}).get("__file__") for module in sys.modules.values())
    return [file for file in found if isinstance(file, str)]


def as_now(files: Iterable[str]) -> Seen | None:
    """The files as they are; None if one was changed after this interpreter had begun.

    Its modules may then be older than the files. A process that was forked from a warm one has
    modules that were loaded long ago.
    """
    seen: Seen = {}
    for path in files:
        try:
            status = os.stat(path)
        except OSError:
            # Made up by a package that builds modules as it runs; one that is gone is missed.
            continue
        # The time of the last change of any kind: unlike that of the content it cannot be set.
        if status.st_ctime_ns >= BEGAN_NS:
            return None
        seen[path] = (status.st_size, status.st_mtime_ns)
    return seen
