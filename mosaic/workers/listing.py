"""Listing the workers behind the fence: the daemon itself imports none of them.

The daemon waits for this list when it starts, so this module and what it imports stay small.
"""

from typing import TYPE_CHECKING, TypedDict, cast

from mosaic.errors import FenceError, HookError
from mosaic.system import fenced
from mosaic.workers import hooks
from mosaic.workers.capabilities import WorkerCapabilities
from mosaic.workers.discovery import DiscoveredWorker, discover

if TYPE_CHECKING:
    from mosaic.config.json_types import JsonValue

# For each package. Discovery itself leaves one that waits alone after ten seconds; one that
# computes for ever is ended by the kernel. The real time is for what does neither, and has to be
# long: on a machine with twenty times as much to do as it can, an interpreter takes ten seconds to
# start.
_DESCRIBE = fenced.Limits(cpu_s=8, wall_s=60.0, memory_mb=2048)


class _Found(TypedDict):
    """What the helper says of one worker."""

    worker_type: str
    display_name: str
    capabilities: str
    problem: str
    package: str
    algorithms: list[str]
    unlisted: str


def discover_fenced() -> dict[str, DiscoveredWorker]:
    """What `discover` finds, without importing a worker into this process.

    A new interpreter also sees what was installed since this one started. It announces each
    package before it loads it: when it has to be stopped, the last one is to blame, and the next
    interpreter leaves it out.
    """
    unloadable: dict[str, JsonValue] = {}
    while True:
        loading = ""

        def announce(package: "JsonValue") -> bytes:
            nonlocal loading
            loading = str(package)
            return b""

        try:
            said = fenced.call(f"{__name__}:list_workers", dict(unloadable), _DESCRIBE, announce)
        except FenceError as error:
            if not loading or loading in unloadable:
                text = f"the installed workers cannot be listed: {error}"
                raise FenceError(text, error.final) from None
            unloadable[loading] = str(error)
        else:
            found = [_read(cast("_Found", item)) for item in cast("list[JsonValue]", said)]
            return {worker.worker_type: worker for worker in found}


def list_workers(unloadable: "JsonValue", ask: fenced.Ask) -> "JsonValue":
    """Behind the fence: every worker, those in `unloadable` without loading them."""
    found = discover(cast("dict[str, str]", unloadable), ask)
    return [cast("JsonValue", _told(worker, ask)) for worker in found.values()]


def _told(worker: DiscoveredWorker, ask: fenced.Ask) -> _Found:
    names: list[str] = []
    unlisted = ""
    if worker.capabilities and worker.capabilities.algorithms:
        ask(worker.entry)
        try:
            names = hooks.algorithms(worker.capabilities)
        except HookError as error:
            unlisted = str(error)
    return _Found(
        worker_type=worker.worker_type,
        display_name=worker.display_name,
        capabilities=worker.capabilities.to_json() if worker.capabilities else "",
        problem=worker.problem,
        package=worker.package,
        algorithms=names,
        unlisted=unlisted,
    )


def _read(said: _Found) -> DiscoveredWorker:
    text = said["capabilities"]
    return DiscoveredWorker(
        said["worker_type"],
        said["display_name"],
        WorkerCapabilities.from_json(text) if text else None,
        said["problem"],
        said["package"],
        algorithms=tuple(said["algorithms"]),
        unlisted=said["unlisted"],
    )
