"""Finding workers: every entry point of the group `mosaic.workers`, broken ones included.

A package that raises, hangs, returns something else than a descriptor or uses the name of another
worker is listed as not available, with its name and the reason. It never hides another worker.
"""

import os
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from typing import Any, TypedDict

from mosaic.config.paths import in_checkout
from mosaic.errors import StrangerError
from mosaic.workers import strangers
from mosaic.workers.capabilities import WorkerCapabilities

GROUP = "mosaic.workers"
# Long for an import of plain Python, also on a busy machine; a descriptor imports nothing heavy.
_LIMIT_S = 10.0
_DEFAULTS = WorkerCapabilities("")


@dataclass(frozen=True)
class DiscoveredWorker:
    """A worker that is installed, or should be.

    Attributes:
        worker_type: The name in configs and on the command line.
        display_name: The name people see.
        capabilities: Its descriptor; None when it cannot be used.
        problem: Why it cannot be used.
        package: The package that brings it, with its version.
        entry: Its entry point.
        algorithms: The names of its algorithms, where it was asked already.
        unlisted: Why they could not be listed.
    """

    worker_type: str
    display_name: str
    capabilities: WorkerCapabilities | None
    problem: str = ""
    package: str = ""
    entry: str = ""
    algorithms: tuple[str, ...] | None = None
    unlisted: str = ""


class _Listed(TypedDict):
    """One worker in `bundled.toml`."""

    display_name: str
    package: str
    install: str
    pip: str


def discover(
    unloadable: Mapping[str, str] | None = None, announce: Callable[[str], object] = str
) -> dict[str, DiscoveredWorker]:
    """Every worker by type, without importing more of it than its descriptor.

    Args:
        unloadable: Entry points that must not be loaded, and why.
        announce: Called with each entry point before it is loaded.
    """
    bundled = _bundled()
    found: dict[str, DiscoveredWorker] = {}
    # Ours first, so that two packages with one name give the same answer on every machine.
    for point in sorted(entry_points(group=GROUP), key=_rank):
        if unloadable and point.value in unloadable:
            worker = _unusable(point, unloadable[point.value])
        else:
            announce(point.value)
            worker = _load(point)
        if point.name in bundled and not is_ours(point.module):
            worker = _double(point, "a worker of MOSAIC")
        elif point.name in found:
            worker = _double(point, found[point.name].package or "another package")
        found[worker.worker_type] = worker
    missing = {name: _missing(name, facts) for name, facts in bundled.items()}
    return {**missing, **found}


def installation() -> tuple[tuple[str, int], ...]:
    """A mark that changes when a package is installed or removed."""
    marks = []
    for folder in sys.path:
        with suppress(OSError):
            # Installing and removing both make or delete an entry in the folder, which sets its
            # time.
            marks.append((folder, os.stat(folder).st_mtime_ns))
    return tuple(marks)


def own_variables(workers: Iterable[DiscoveredWorker]) -> frozenset[str]:
    """The variables that the installed workers keep for themselves."""
    return frozenset(
        name
        for worker in workers
        if worker.capabilities
        for name in worker.capabilities.own_variables
    )


def is_ours(module: str) -> bool:
    """Whether a module, or a `package.module:function`, belongs to MOSAIC itself."""
    package = module.partition(":")[0].partition(".")[0]
    return package == "mosaic" or any(
        package == listed["package"] for listed in _bundled().values()
    )


def _rank(point: EntryPoint) -> tuple[bool, str, str]:
    return not is_ours(point.module), point.name, _package(point)


def _load(point: EntryPoint) -> DiscoveredWorker:
    def descriptor() -> object:
        function: object = point.load()
        if not callable(function):
            raise StrangerError(f"its entry point {point.value!r} is not a function")
        answer: object = function()
        return answer

    try:
        given = descriptor() if is_ours(point.module) else strangers.call(descriptor, _LIMIT_S)
        capabilities = _checked(point, given)
    except StrangerError as error:
        return _unusable(point, str(error))
    except Exception as error:
        # A worker's package may raise anything; the others have to be found all the same.
        return _unusable(point, f"its package cannot be loaded: {strangers.sentence(error)}")
    name = capabilities.display_name or capabilities.worker_type
    return DiscoveredWorker(
        point.name, name, capabilities, package=_package(point), entry=point.value
    )


def _checked(point: EntryPoint, given: object) -> WorkerCapabilities:
    """A descriptor whose fields have their types; nothing later has to doubt them."""
    if not isinstance(given, WorkerCapabilities):
        raise StrangerError(
            f"its entry point {point.value!r} returns {strangers.kind(given)}, "
            "not WorkerCapabilities"
        )
    if given.worker_type != point.name:
        raise StrangerError(
            f"its entry point is called {point.name!r} but its descriptor {given.worker_type!r}; "
            "both must have the same name"
        )
    # Lists are what people write; they mean the same as tuples.
    lists: dict[str, Any] = {
        item.name: tuple(value)
        for item in fields(given)
        if isinstance(value := getattr(given, item.name), list)
    }
    descriptor = replace(given, **lists)
    for item in fields(descriptor):
        value, example = getattr(descriptor, item.name), getattr(_DEFAULTS, item.name)
        # Exactly this type: True would pass for a number and be refused much later.
        fits = type(value) is type(example)
        if fits and isinstance(example, tuple):
            fits = all(isinstance(part, str) for part in value)
        if not fits:
            expected = "a tuple of words" if isinstance(example, tuple) else strangers.kind(example)
            raise StrangerError(
                f"{item.name} of its descriptor is {strangers.kind(value)}, not {expected}"
            )
    if not descriptor.module:
        package = point.module.partition(".")[0]
        descriptor = replace(descriptor, module=f"{package}.cli")
    return descriptor


def _unusable(point: EntryPoint, problem: str) -> DiscoveredWorker:
    package = _package(point)
    text = f"{problem} (package {package})" if package else problem
    return DiscoveredWorker(point.name, point.name, None, text, package)


def _double(point: EntryPoint, owner: str) -> DiscoveredWorker:
    """A package that uses a name which is taken; it is listed under a name of its own."""
    worker = _unusable(point, f"the name {point.name!r} belongs to {owner}; choose another")
    own_name = f"{point.name} ({worker.package or point.module})"
    return replace(worker, worker_type=own_name, display_name=own_name)


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else ""


@cache
def _bundled() -> dict[str, _Listed]:
    text = files("mosaic.workers").joinpath("bundled.toml").read_text()
    listed: dict[str, _Listed] = tomllib.loads(text)
    return listed


def _missing(worker_type: str, listed: _Listed) -> DiscoveredWorker:
    command = listed["install"] if in_checkout() else listed["pip"]
    what = f"not installed; run: {command}" if command else "not part of this release"
    return DiscoveredWorker(worker_type, listed["display_name"], None, what)
