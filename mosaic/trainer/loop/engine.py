"""The daemon's heart: stimuli in, events recorded, instructions carried out, in one loop."""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from mosaic.config.paths import Home
from mosaic.config.settings import Settings
from mosaic.config.sites import LOCAL
from mosaic.connect.endpoint import Address
from mosaic.errors import InvalidTransitionError, MosaicError, StorageError
from mosaic.fastlane.ownership import sweep_leftovers
from mosaic.records.run import Outcome
from mosaic.runs import ids
from mosaic.runs.supervised import process_keys
from mosaic.trainer.core.decisions import Now, decide
from mosaic.trainer.core.scheduler import Machine
from mosaic.trainer.core.states import Run, State
from mosaic.trainer.core.stimuli import (
    CancelRequested,
    SignOfLife,
    Stimulus,
)
from mosaic.trainer.launch.controls import ControlStreams
from mosaic.trainer.launch.effects import Effects
from mosaic.trainer.launch.environments import RunEnvironments
from mosaic.trainer.launch.executor import Executor
from mosaic.trainer.loop import damage, housekeeping, intake, recovery
from mosaic.trainer.loop.background import BackgroundTasks
from mosaic.trainer.loop.endings import Endings, Retries
from mosaic.trainer.loop.live import LiveRuns
from mosaic.trainer.loop.observer import observe
from mosaic.trainer.loop.patience import LaunchPatience
from mosaic.trainer.loop.queue import RunQueue
from mosaic.trainer.loop.slots import SlotTable
from mosaic.trainer.loop.submissions import Submissions
from mosaic.trainer.loop.trash import Trash
from mosaic.trainer.loop.watch import Watch
from mosaic.trainer.sites.choice import Sites
from mosaic.trainer.sites.door import Door
from mosaic.trainer.sites.local import LocalSite
from mosaic.trainer.storage.journal import Journal
from mosaic.trainer.storage.registry import Registry, StoredRun, Vitals
from mosaic.workers.asking import WorkerChecks
from mosaic.workers.discovery import DiscoveredWorker

# Why the loop polls: a worker's log, its exit record and `/proc` cannot all be waited for with one
# primitive. inotify knows no processes and loses events under load, so it would need a poll behind
# it anyway. A quarter of a second is below what a person notices and costs an idle daemon nothing
# that could be measured.
_TURN_S = 0.25
# A launch passes through several states within a second; here each turn is part of the wait.
_BUSY_TURN_S = 0.05
# A log that is being caught up with: only as long as others need to get their turn.
_BEHIND_S = 0.001
# Vital signs come once a second from each run. After a crash they are read again from the log, so
# storing them seldom loses nothing.
_VITALS_PERSIST_S = 2.0
_HOUSEKEEPING_S = 30.0
# Far more than any turn takes, less than the shortest wait that could end a run.
_FROZEN_S = 5.0

log = logging.getLogger(__name__)


class Engine:
    """Turns the wheel: observe every live run, let what was seen happen, start what may start.

    Everything runs on one thread, the event loop's, and nothing in `apply` awaits: a decision, its
    record and its instructions are one step that no other stimulus can come between.

    Attributes:
        live: The runs that have not ended.
        checks: Workers' own checks of configurations.
        submissions: Accepts new runs.
        trash: Deletes ended ones.
        controls: Commands to workers.
        disk: The space that is left.
        queue: Starts the runs that wait.
        epoch: How many times a daemon has started on this home.
        address: Where the daemon listens, once it does.
    """

    def __init__(
        self,
        home: Home,
        settings: Settings,
        registry: Registry,
        executor: Executor,
        workers: dict[str, DiscoveredWorker],
        token: bytes,
    ) -> None:
        self.home = home
        self.settings = settings
        self.registry = registry
        self.workers = workers
        self.journal = Journal(registry)
        self.live = LiveRuns(home, registry)
        self.slots = SlotTable(settings)
        self.address = Address("")
        # By name: the queue itself needs the sites, which are made with the door.
        door = Door(token, lambda: self.address, self.live.runs, lambda: self.queue.look_soon())
        self.sites = Sites(home, settings, LocalSite(executor, self.slots), door)
        self.disk = housekeeping.DiskWatch(home, settings)
        self.epoch = 0
        self.controls = ControlStreams()
        self._tasks = BackgroundTasks()
        self.checks = WorkerChecks(settings.check_timeout_s)
        environments = RunEnvironments(home)
        patience = LaunchPatience()
        self.queue = RunQueue(
            self.live,
            self.sites,
            self.disk,
            patience,
            lambda run: self.effects.preflight(run),
            self.apply,
            lambda: self.epoch,
        )
        self._housekept = -_HOUSEKEEPING_S
        self._turned = time.monotonic()
        self.submissions = Submissions(
            home,
            registry,
            self.journal,
            self.live,
            workers,
            self.checks,
            self.disk,
            environments,
            self.machine,
            self.queue.look_soon,
            settings.site,
        )
        self.trash = Trash(
            home, settings, registry, self.journal, self.live, self._tasks, self.apply
        )
        retries = Retries(home, settings, self.submissions, self._tasks)
        endings = Endings(
            home,
            self.journal,
            self.live,
            self.slots,
            self.controls,
            environments,
            retries,
            self.queue.look_soon,
        )
        self.effects = Effects(
            home,
            settings,
            workers,
            self.sites,
            token,
            self._try_apply,
            self.controls,
            environments,
            endings,
            self._tasks,
            patience,
        )

    def machine(self) -> Machine:
        """The slot table of this moment."""
        return self.slots.picture(run for run in self.live.runs() if run.site == LOCAL)

    def serve_at(self, address: Address) -> None:
        """Tell everyone who calls back, here and elsewhere, where the daemon listens."""
        self.address = address
        self.effects.target = address.target

    # ------------------------------------------------------------ what happens to a run

    def apply(self, run_id: str, stimulus: Stimulus) -> StoredRun:
        """Let a stimulus happen to a run.

        Raises:
            RunNotFoundError: There is no such run.
            InvalidTransitionError: Its state does not allow it.
            StorageError: The disk refuses; nothing was recorded.
        """
        stored = self.live.stored(run_id)
        run = stored.run
        if run.damaged:
            run = damage.handle(self.home, run, stimulus)
            if run is not stored.run:
                self.journal.publish(run, stored.vitals)
            return StoredRun(run, stored.vitals, stored.sequence)
        decision = decide(run, stimulus, Now(time.time(), time.monotonic()))
        if decision.refusal:
            raise InvalidTransitionError(decision.refusal)
        # The journal before the effects: after a crash in between, the next daemon knows what was
        # meant and finds out from the processes whether it happened. The other way round there
        # could be a process that no log knows of.
        if decision.events:
            directory = self.live.run_dir(stored).path
            run = self.journal.record(run, directory, decision.events, stored.vitals)
            self.live.update(run)
            self.queue.changed()
        watch = self.live.watch(run_id)
        if watch is not None and run.attempt != stored.run.attempt:
            watch.begin_attempt(run.attempt)
        if watch is not None and run.state is not stored.run.state:
            # A new state begins with a full measure of patience.
            watch.forgive(time.monotonic())
        for instruction in decision.instructions:
            self.effects.carry_out(run, watch, instruction)
        return StoredRun(run, stored.vitals, stored.sequence)

    def heard_from(self, run_id: str) -> None:
        """A worker called: it is alive."""
        run, watch = self.live.get(run_id), self.live.watch(run_id)
        if run is not None and watch is not None:
            watch.heartbeat_mono = time.monotonic()
            watch.vitals = replace(watch.vitals, last_heartbeat=time.time())
            stuck = watch.movement.stuck(time.monotonic(), self.settings.stall_after_s)
            if run.stalled and not stuck:
                self._try_apply(run_id, SignOfLife())

    def look_at(self, run_id: str) -> None:
        """Observe a run now instead of at the next turn."""
        run, watch = self.live.get(run_id), self.live.watch(run_id)
        if run is not None and watch is not None and _has_begun(run):
            watch.looked_mono = 0.0
            self._observe(run)

    def stop_all(self, reason: str) -> None:
        """Stop every worker; their runs end `interrupted`."""
        for run in self.live.runs():
            if _has_begun(run):
                order = CancelRequested(self.settings.grace_s, Outcome.INTERRUPTED, reason)
                self._try_apply(run.run_id, order)

    # ------------------------------------------------------------ the loop

    def recover(self) -> None:
        """Take over every run of the home; called before anyone is served."""
        intake.remove_half_made(self.home)
        sweep_leftovers()
        found = recovery.reconcile(self.home, self.registry)
        self.epoch = self.registry.next_epoch(after=found.epoch)
        # A clock that was set back must not give a new run an id that sorts before old ones.
        ids.continue_after(found.newest_id)
        for run, vitals in found.live:
            with _fence(run.run_id, "taken over"):
                self._take_over(run, vitals)

    def _take_over(self, run: Run, vitals: Vitals) -> None:
        watch = self.live.add(run, vitals)
        watch.keys = process_keys(watch.directory) or recovery.marked_keys(run)
        evidence = (
            recovery.gather(watch.directory, watch.keys)
            if run.site == LOCAL
            else recovery.gather_elsewhere(run, watch.directory)
        )
        stimulus = recovery.judge(run, evidence, self.epoch)
        if stimulus is not None:
            self._try_apply(run.run_id, stimulus)
        # At once: what happened while there was no daemon is known before the first caller asks.
        self.look_at(run.run_id)

    async def run_forever(self) -> None:
        """Turn after turn: observe, schedule, tidy up."""
        while True:
            # Each run has a fence of its own. This one is for what was not foreseen beside them:
            # a daemon that stumbles over it must still answer.
            with _fence("(all)", "looked after"):
                self._turn()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.queue.wake.wait(), self._pause_s())
            self.queue.wake.clear()

    async def close(self) -> None:
        """Store what is only in memory; workers continue without the daemon."""
        for run, watch in self.live.watches():
            with _fence(run.run_id, "stored"):
                watch.curves.flush()
                self.registry.put_vitals(run.run_id, watch.vitals)
        self._tasks.cancel()
        self.checks.close()
        await self.effects.close()

    def _turn(self) -> None:
        self._forgive_freeze(time.monotonic())
        for run in self.live.runs():
            if _has_begun(run):
                self._observe(run)
        self._publish_vitals()
        # After all were observed: what a run that ended in this turn held is given out in the same.
        self.queue.look()
        self.sites.reap()
        if time.monotonic() - self._housekept > _HOUSEKEEPING_S:
            self._housekept = time.monotonic()
            self._housekeep()

    def _forgive_freeze(self, now: float) -> None:
        """After a time in which this process stood still, hold no silence against any run.

        A suspended machine or a paused container stops the workers too, and what they have sent
        since has not been read yet.
        """
        gap = now - self._turned
        if gap > _FROZEN_S:
            log.warning("nothing ran here for %.0f s; all waits begin again", gap)
            for run, watch in self.live.watches():
                # A run that waits in the queue has no limit that could be moved.
                watch.thaw(gap if _has_begun(run) else 0.0, now)
        self._turned = now

    def _pause_s(self) -> float:
        watched = self.live.watches()
        if any(watch.tailer.behind for _, watch in watched):
            return _BEHIND_S
        # An engine's queue is no hurry: the job may wait there for days.
        starting = any(
            (run.launching and not run.placed) or run.state is State.HSHK for run, _ in watched
        )
        return _BUSY_TURN_S if starting else _TURN_S

    def _observe(self, run: Run) -> None:
        watch = self.live.watch(run.run_id)
        if watch is None:
            return
        offset, seq = watch.vitals.log_offset, watch.vitals.log_seq
        now = Now(time.time(), time.monotonic())
        with _fence(run.run_id, "observed"):
            try:
                for stimulus in observe(run, watch, self.settings, now, self.sites.of(run)):
                    self.apply(run.run_id, stimulus)
            except StorageError as error:
                log.error("run %s: %s; it will be looked at again", run.run_id, error)
                # The lines were read but not recorded. Read them again once the disk takes events.
                watch.vitals = replace(watch.vitals, log_offset=offset, log_seq=seq)
                watch.tailer = Watch.of(watch.directory, watch.vitals).tailer

    def _try_apply(self, run_id: str, stimulus: Stimulus) -> None:
        try:
            self.apply(run_id, stimulus)
        except MosaicError as error:
            log.error("%s", error)

    def _publish_vitals(self) -> None:
        now = time.monotonic()
        for run, watch in self.live.watches():
            if watch.vitals_dirty:
                watch.vitals_dirty = False
                with _fence(run.run_id, "given its curves"):
                    watch.curves.flush()
                persist = now - watch.persisted_mono > _VITALS_PERSIST_S
                watch.persisted_mono = now if persist else watch.persisted_mono
                self.journal.publish_vitals(run, watch.vitals, persist)

    def _housekeep(self) -> None:
        self.disk.look()
        for run, watch in self.live.watches():
            with _fence(run.run_id, "kept within its limit of logs"):
                housekeeping.cap_logs(watch.directory, self.settings)
        self.trash.empty_expired()
        # Space may have become free, or a foreign program may have left a GPU.
        self.queue.changed()


@contextmanager
def _fence(run_id: str, what: str) -> Iterator[None]:
    """Whatever goes wrong with one run must not take the others with it."""
    try:
        yield
    except Exception:
        log.exception("run %s could not be %s", run_id, what)


def _has_begun(run: Run) -> bool:
    """Whether there may be something to observe: a launch, processes, or what they left."""
    return bool(run.slots) or run.state is not State.INIT
