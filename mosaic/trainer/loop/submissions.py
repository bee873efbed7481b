"""Accepting new runs: once for each idempotency key, and only while there is room on the disk."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from mosaic.config.paths import Home
from mosaic.errors import StorageError
from mosaic.runs.opening import is_regular
from mosaic.runs.pins import pin
from mosaic.trainer.core.scheduler import Machine
from mosaic.trainer.launch.environments import RunEnvironments
from mosaic.trainer.loop import intake
from mosaic.trainer.loop.housekeeping import DiskWatch
from mosaic.trainer.loop.live import LiveRuns
from mosaic.trainer.storage.journal import Journal
from mosaic.trainer.storage.registry import Registry, StoredRun, Vitals
from mosaic.workers import discovery
from mosaic.workers.asking import WorkerChecks
from mosaic.workers.discovery import DiscoveredWorker
from mosaic.workers.listing import discover_fenced

if TYPE_CHECKING:
    from mosaic.config.model import TrainRunConfig

log = logging.getLogger(__name__)


class Submissions:
    """Turns a submission into a queued run."""

    def __init__(
        self,
        home: Home,
        registry: Registry,
        journal: Journal,
        live: LiveRuns,
        workers: dict[str, DiscoveredWorker],
        checks: WorkerChecks,
        disk: DiskWatch,
        environments: RunEnvironments,
        machine: Callable[[], Machine],
        queue_changed: Callable[[], None],
        site: str,
    ) -> None:
        self._home = home
        self._registry = registry
        self._journal = journal
        self._live = live
        self._workers = workers
        self._checks = checks
        self._disk = disk
        self._environments = environments
        self._machine = machine
        self._queue_changed = queue_changed
        self._site = site
        self._installation = discovery.installation()
        # Weak: a key's lock is needed only while a call with this key is under way.
        self._keys: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def submit(self, submission: intake.Submission) -> tuple[StoredRun, bool]:
        """Create a run.

        Returns:
            The run, and whether it was created: False if the idempotency key is known.

        Raises:
            InvalidConfigError: With every problem.
            StorageError: There is no room for it.
        """
        key = submission.idempotency_key
        if not key:
            return await self._create(submission), True
        # A client that lost the answer asks again while the first call still validates. The
        # second call waits here and then finds the run, instead of creating another.
        async with self._keys.setdefault(key, asyncio.Lock()):
            known = self._registry.find_by_key(key)
            if known is None and intake.names_run(key) and self._registry.get(key):
                known = key
            if known is not None:
                return self._live.stored(known), False
            return await self._create(submission), True

    async def validate(self, config_json: str) -> "TrainRunConfig":
        """Check a configuration against the model, the worker and the machine.

        Raises:
            InvalidConfigError: With every problem.
            StorageError: The worker cannot be asked now.
        """
        await self.find_new_workers()
        capacity = intake.Capacity.of(self._machine())
        return await intake.validate(config_json, self._workers, self._checks, capacity, self._site)

    async def find_new_workers(self) -> None:
        """Learn of workers that were installed or removed while the daemon runs."""
        installation = discovery.installation()
        if installation == self._installation:
            return
        # Noted before the listing, which takes a while: what is installed meanwhile is then found
        # by the next call.
        self._installation = installation
        found = await asyncio.to_thread(discover_fenced)
        self._checks.forget()
        # In place: those who launch runs hold the same dictionary.
        self._workers.clear()
        self._workers.update(found)

    def _pin_source(self, parent_run_id: str, config: "TrainRunConfig") -> None:
        """Keep the checkpoint that a run is to start from, however long it waits for slots."""
        given = config.worker.extras.checkpoint_path
        if not parent_run_id or not given:
            return
        parent = self._home.run_dir(parent_run_id)
        # A folder stands for the newest one in it, which no policy removes.
        if Path(given).is_relative_to(parent) and is_regular(Path(given)):
            try:
                pin(parent, Path(given).relative_to(parent).as_posix())
            except (OSError, ValueError) as error:
                log.warning("%s could not be pinned: %s", given, error)

    async def _create(self, submission: intake.Submission) -> StoredRun:
        config = await self.validate(submission.config_json)
        # Looked at now and not only every 30 s: a burst of runs can fill a disk in between.
        self._disk.look()
        if self._disk.notice:
            raise StorageError(self._disk.notice)
        created = await asyncio.to_thread(
            intake.create_run, self._home, submission, config, self._workers, self._site
        )
        run = created.run
        await asyncio.to_thread(self._pin_source, submission.parent_run_id, config)
        self._environments.keep(run.run_id, created.environment)
        vitals = Vitals(total=run.total_timesteps)
        self._live.add(run, vitals)
        self._journal.publish(run, vitals)
        self._queue_changed()
        return self._live.stored(run.run_id)
