"""What happens when a run is over: its logs are kept, its slots freed, a lost one tried again."""

import json
import logging
from collections.abc import Callable, Mapping

from mosaic.config.paths import Home
from mosaic.config.settings import Settings
from mosaic.config.sites import LOCAL
from mosaic.errors import MosaicError
from mosaic.fastlane.ownership import sweep_leftovers
from mosaic.records.run import Outcome
from mosaic.runs.directory import RunDirectory
from mosaic.runs.opening import read_document
from mosaic.trainer.core.states import Run
from mosaic.trainer.launch.controls import ControlStreams
from mosaic.trainer.launch.environments import RunEnvironments
from mosaic.trainer.loop import housekeeping, intake
from mosaic.trainer.loop.background import BackgroundTasks
from mosaic.trainer.loop.live import LiveRuns
from mosaic.trainer.loop.slots import SlotTable
from mosaic.trainer.loop.submissions import Submissions
from mosaic.trainer.storage.journal import Journal

_RETRY_TAG = "retry"

log = logging.getLogger(__name__)


class Retries:
    """Submits a lost run once more, where the settings ask for it."""

    def __init__(
        self, home: Home, settings: Settings, submissions: Submissions, tasks: BackgroundTasks
    ) -> None:
        self._home = home
        self._settings = settings
        self._submissions = submissions
        self._tasks = tasks

    def consider(self, run: Run) -> None:
        """Try a run again if it was lost and is not itself a second try."""
        if run.outcome != Outcome.LOST or not self._settings.retry_lost:
            return
        document = read_document(RunDirectory(self._home.run_dir(run.run_id)).config)
        # The tag ends the chain: a machine that loses every run must not be kept busy by it.
        if document is None or run.tags[-1:] == (_RETRY_TAG,):
            return
        self._tasks.start(self._submit(run, document))

    async def _submit(self, run: Run, document: Mapping[str, object]) -> None:
        # Here: few runs are lost, and it needs pydantic.
        from mosaic.config import build

        try:
            config = build.retry(build.read_config(document), [*run.tags, _RETRY_TAG])
            await self._submissions.submit(
                intake.Submission(
                    json.dumps(config.document()),
                    priority=run.priority,
                    cold=run.cold,
                    parent_run_id=run.run_id,
                )
            )
        except (MosaicError, OSError) as error:
            log.error("the lost run %s could not be tried again: %s", run.run_id, error)


class Endings:
    """Takes an ended run out of the live ones."""

    def __init__(
        self,
        home: Home,
        journal: Journal,
        live: LiveRuns,
        slots: SlotTable,
        controls: ControlStreams,
        environments: RunEnvironments,
        retries: Retries,
        queue_changed: Callable[[], None],
    ) -> None:
        self._home = home
        self._journal = journal
        self._live = live
        self._slots = slots
        self._controls = controls
        self._environments = environments
        self._retries = retries
        self._queue_changed = queue_changed

    def archive(self, run: Run, slots: tuple[str, ...]) -> None:
        """Keep the logs of an ended run and forget it as a live one.

        Args:
            run: The row after its last event.
            slots: What it held until then.
        """
        watch = self._live.watch(run.run_id)
        if watch is None:
            return
        watch.curves.close()
        self._live.remove(run.run_id)
        self._controls.close(run.run_id)
        self._environments.forget(run.run_id)
        # Once more, with the vital signs of the end: from now on the registry's row is the truth.
        self._journal.publish(run, watch.vitals)
        # Before the queue is looked at again, or the next run would get a GPU whose memory the
        # dying process has not released yet.
        if run.site == LOCAL:
            self._slots.drain(slots, [key.pid for key in watch.keys])
        housekeeping.keep_logs(self._home, run.run_id, watch.directory)
        housekeeping.remove_half_written(watch.directory)
        sweep_leftovers(run.run_id, run_dir=watch.directory.path)
        self._queue_changed()
        self._retries.consider(run)
