"""Finding workers: every entry point of the group `mosaic.workers`, broken ones included."""

import importlib
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from mosaic.config.paths import project_root
from mosaic.workers.capabilities import WorkerCapabilities

GROUP = "mosaic.workers"


@dataclass(frozen=True)
class DiscoveredWorker:
    """A worker that is installed, or should be; `problem` says why it cannot be used."""

    worker_type: str
    display_name: str
    capabilities: WorkerCapabilities | None
    problem: str = ""


def discover() -> dict[str, DiscoveredWorker]:
    """Every worker by type, without importing more of it than its descriptor."""
    found = {point.name: _load(point) for point in entry_points(group=GROUP)}
    for worker in _bundled():
        found.setdefault(worker.worker_type, worker)
    return found


def own_variables(workers: Iterable[DiscoveredWorker]) -> frozenset[str]:
    """The variables that the installed workers keep for themselves."""
    return frozenset(
        name
        for worker in workers
        if worker.capabilities
        for name in worker.capabilities.own_variables
    )


def load_hook(reference: str) -> Callable[..., Any]:
    """The function behind `package.module:function`."""
    module, _, name = reference.partition(":")
    hook: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return hook


def _load(point: EntryPoint) -> DiscoveredWorker:
    try:
        capabilities: WorkerCapabilities = point.load()()
        if not capabilities.module:
            package = point.module.partition(".")[0]
            capabilities = replace(capabilities, module=f"{package}.cli")
    except Exception as error:
        # A worker's package may raise anything; the others have to be found all the same.
        problem = f"its package cannot be loaded: {type(error).__name__}: {error}"
        return DiscoveredWorker(point.name, point.name, None, problem)
    name = capabilities.display_name or capabilities.worker_type
    return DiscoveredWorker(point.name, name, capabilities)


def _bundled() -> Iterator[DiscoveredWorker]:
    """The workers of this checkout as if none were installed."""
    try:
        listed = tomllib.loads((project_root() / "workers" / "bundled.toml").read_text())
    except OSError:
        return  # MOSAIC was installed without its repository
    for worker_type, facts in listed.items():
        command = facts["install"]
        what = f"not installed; run: {command}" if command else "not part of this release"
        yield DiscoveredWorker(worker_type, facts["display_name"], None, what)
