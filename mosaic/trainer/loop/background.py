"""Work beside the loop: started and forgotten, but never beyond the daemon's end."""

import asyncio
import logging
from collections.abc import Coroutine

log = logging.getLogger(__name__)


class BackgroundTasks:
    """Holds its tasks: asyncio itself keeps only weak references, so they could vanish half-way."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()

    def start(self, work: Coroutine[object, None, object]) -> None:
        """Run something beside the loop; it is cancelled when the daemon leaves."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def cancel(self) -> None:
        """Stop everything that still runs."""
        for task in tuple(self._tasks):
            task.cancel()

    def _finished(self, task: "asyncio.Task[object]") -> None:
        self._tasks.discard(task)
        # Nothing awaits these tasks, so an error that is not logged here is never seen.
        if not task.cancelled() and task.exception() is not None:
            log.error("background work failed: %s", task.exception())
