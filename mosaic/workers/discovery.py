"""Finding workers: every entry point of the group `mosaic.workers`, broken ones included."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from mosaic.workers.capabilities import WorkerCapabilities

GROUP = "mosaic.workers"
# Workers people look for that may not be installed, with what to do about it.
BUNDLED = {
    "cleanrl": ("CleanRL Worker", "not installed; run: make setup"),
    "spade_bdi": ("Spade BDI Worker", "not installed; run: make setup-spade"),
    "llm": ("LLM Multi-Step Worker", "not installed: this release does not contain it"),
}


@dataclass(frozen=True)
class DiscoveredWorker:
    """A worker that is installed, or should be; `problem` says why it cannot be used."""

    worker_type: str
    display_name: str
    capabilities: WorkerCapabilities | None
    problem: str = ""


def discover() -> dict[str, DiscoveredWorker]:
    """Every worker by type, without importing more of it than its descriptor."""
    found: dict[str, DiscoveredWorker] = {}
    for point in entry_points(group=GROUP):
        try:
            capabilities = point.load()()
        except Exception as error:
            problem = f"its package cannot be loaded: {type(error).__name__}: {error}"
            found[point.name] = DiscoveredWorker(point.name, point.name, None, problem)
            continue
        name = capabilities.display_name or capabilities.worker_type
        found[point.name] = DiscoveredWorker(point.name, name, capabilities)
    for worker_type, (name, problem) in BUNDLED.items():
        if worker_type not in found:
            found[worker_type] = DiscoveredWorker(worker_type, name, None, problem)
    return found


def load_hook(reference: str) -> Callable[..., Any]:
    """The function behind `package.module:function`."""
    module, _, name = reference.partition(":")
    hook: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return hook
