"""The trash: ended runs on their way out, for as long as the settings keep them."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mosaic.config.paths import Home
from mosaic.config.settings import Settings
from mosaic.errors import StorageError
from mosaic.trainer.core.stimuli import DeleteRequested, Stimulus
from mosaic.trainer.loop import housekeeping
from mosaic.trainer.loop.background import BackgroundTasks
from mosaic.trainer.loop.clock import BelievedClock
from mosaic.trainer.loop.live import LiveRuns
from mosaic.trainer.storage.journal import Journal
from mosaic.trainer.storage.registry import Registry, StoredRun

Apply = Callable[[str, Stimulus], StoredRun]


def move(place: Path, target: Path) -> None:
    """Move a run directory to or from the trash.

    After the event was recorded: a crash in between leaves a run whose log says where it belongs,
    and the next daemon moves it there. The other way round it would be in a place that its log
    does not explain.
    """
    with suppress(FileNotFoundError):
        os.rename(place, target)


class Trash:
    """Deletes runs, at once or when their time in the trash is over."""

    def __init__(
        self,
        home: Home,
        settings: Settings,
        registry: Registry,
        journal: Journal,
        live: LiveRuns,
        tasks: BackgroundTasks,
        apply: Apply,
    ) -> None:
        self._home = home
        self._settings = settings
        self._registry = registry
        self._journal = journal
        self._live = live
        self._tasks = tasks
        self._apply = apply
        self._clock = BelievedClock(registry)

    async def delete(self, run_id: str, purge: bool) -> None:
        """Move a run to the trash, or remove it for good.

        Raises:
            InvalidTransitionError: It has not ended.
        """
        stored = self._apply(run_id, DeleteRequested(purge))
        if purge:
            # The row first: a run that is listed but has no files would be an error, files
            # without a row are found again by the next daemon.
            self._journal.remove(run_id)
            place = self._live.run_dir(stored).path
            await asyncio.to_thread(housekeeping.remove_files, self._home, run_id, place)

    def empty_expired(self) -> None:
        """Remove for good what has been in the trash for long enough."""
        with suppress(StorageError):
            now = self._clock.look()
            for stored in self._registry.deleted():
                if housekeeping.has_expired(self._live.run_dir(stored).path, self._settings, now):
                    self._tasks.start(self.delete(stored.run.run_id, purge=True))
