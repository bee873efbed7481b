"""The daemon's heart: stimuli in, events recorded, instructions carried out, in one loop."""

import asyncio
import json
import logging
import os
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from weakref import WeakValueDictionary

from mosaic.config.paths import Home
from mosaic.config.settings import Settings
from mosaic.errors import InvalidTransitionError, MosaicError, RunNotFoundError, StorageError
from mosaic.fastlane.ownership import sweep_leftovers
from mosaic.records.run import Outcome
from mosaic.runs import ids
from mosaic.runs.directory import RunDirectory, read_json
from mosaic.system import processes
from mosaic.trainer.core.decisions import Archive, MoveBack, MoveToTrash, Now, decide
from mosaic.trainer.core.scheduler import Claim, Machine, plan
from mosaic.trainer.core.states import Run, State
from mosaic.trainer.core.stimuli import (
    CancelRequested,
    DeleteRequested,
    LaunchFailed,
    SignOfLife,
    SlotsGranted,
    Stimulus,
)
from mosaic.trainer.launch.effects import Effects
from mosaic.trainer.launch.executor import Executor
from mosaic.trainer.loop import housekeeping, intake, recovery
from mosaic.trainer.loop.observer import Watch, observe
from mosaic.trainer.loop.slots import SlotTable
from mosaic.trainer.storage.journal import Journal
from mosaic.trainer.storage.registry import Registry, StoredRun, Vitals
from mosaic.workers.discovery import DiscoveredWorker

_TURN_S = 0.25
_BUSY_TURN_S = 0.05
_VITALS_PERSIST_S = 2.0
_HOUSEKEEPING_S = 30.0

log = logging.getLogger(__name__)


class Engine:
    """Owns every live run of a home."""

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
        self.slots = SlotTable(settings)
        self.effects = Effects(home, settings, workers, executor, token, self._try_apply)
        self.draining = False
        self.notice = ""
        self.epoch = 0
        self._executor = executor
        self._runs: dict[str, Run] = {}
        self._watches: dict[str, Watch] = {}
        self._keys: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._unscheduled = True
        self._wake = asyncio.Event()
        self._housekept = -_HOUSEKEEPING_S

    # ------------------------------------------------------------ reading

    def live_runs(self) -> list[Run]:
        """Every run that has not ended."""
        return list(self._runs.values())

    def stored(self, run_id: str) -> StoredRun:
        """A run with its newest vital signs.

        Raises:
            RunNotFoundError: There is none.
        """
        run = self._runs.get(run_id)
        if run is not None:
            return StoredRun(run, self._watches[run_id].vitals, 0)
        stored = self.registry.get(run_id)
        if stored is None:
            raise RunNotFoundError(f"no run {run_id}; `mosaic runs` lists them")
        return stored

    def fresh(self, stored: StoredRun) -> StoredRun:
        """A stored row with the vital signs of this moment."""
        run_id = stored.run.run_id
        return self.stored(run_id) if run_id in self._runs else stored

    def wait_reason(self, run_id: str) -> str:
        """Why a run waits; empty when it does not."""
        watch = self._watches.get(run_id)
        return watch.wait_reason if watch else ""

    def machine(self) -> Machine:
        """The slot table of this moment."""
        return self.slots.picture(self._runs.values())

    def run_dir(self, stored: StoredRun) -> RunDirectory:
        """Where a run lies: among the runs or in the trash."""
        root = self.home.trash if stored.run.deleted else self.home.runs
        return RunDirectory(root / stored.run.run_id)

    # ------------------------------------------------------------ changing

    async def submit(self, submission: intake.Submission) -> tuple[StoredRun, bool]:
        """Take a run in; the second value is False when its key named an existing run.

        Raises:
            InvalidConfigError: With every problem.
            StorageError: There is no room for it.
        """
        key = submission.idempotency_key
        if not key:
            return await self._take_in(submission), True
        async with self._keys.setdefault(key, asyncio.Lock()):
            known = self.registry.find_by_key(key)
            if known is None and intake.names_run(key) and self.registry.get(key):
                known = key
            if known is not None:
                return self.stored(known), False
            return await self._take_in(submission), True

    async def _take_in(self, submission: intake.Submission) -> StoredRun:
        capacity = intake.Capacity.of(self.machine())
        config = await asyncio.to_thread(
            intake.validate, submission.config_json, self.workers, capacity
        )
        self._look_at_the_disk()
        if self.notice:
            raise StorageError(self.notice)
        taken = await asyncio.to_thread(intake.take_in, self.home, submission, config, self.workers)
        run = taken.run
        self.effects.environments.keep(run.run_id, taken.environment)
        vitals = Vitals(total=run.total_timesteps)
        self._runs[run.run_id] = run
        self._watches[run.run_id] = Watch.of(RunDirectory(self.home.run_dir(run.run_id)), vitals)
        self.journal.publish(run, vitals)
        self._schedule_soon()
        return self.stored(run.run_id)

    def apply(self, run_id: str, stimulus: Stimulus) -> StoredRun:
        """Let a stimulus happen to a run.

        Raises:
            RunNotFoundError: There is no such run.
            InvalidTransitionError: Its state does not allow it.
            StorageError: The disk refuses; nothing was recorded.
        """
        stored = self.stored(run_id)
        run = stored.run
        decision = decide(run, stimulus, Now(time.time(), time.monotonic()))
        if decision.refusal:
            raise InvalidTransitionError(decision.refusal)
        if decision.events:
            directory = self.run_dir(stored).path
            run = self.journal.record(run, directory, decision.events, stored.vitals)
            if run_id in self._runs:
                self._runs[run_id] = run
                if run.state is not stored.run.state:
                    self._watches[run_id].heartbeat_mono = time.monotonic()
            self._unscheduled = True
        for instruction in decision.instructions:
            match instruction:
                case Archive():
                    self._archive(run, instruction.slots)
                case MoveToTrash():
                    self._move(self.home.run_dir(run_id), self.home.trash / run_id)
                case MoveBack():
                    self._move(self.home.trash / run_id, self.home.run_dir(run_id))
                case _:
                    self.effects.carry_out(run, self._watches.get(run_id), instruction)
        return StoredRun(run, stored.vitals, stored.sequence)

    async def delete(self, run_id: str, purge: bool) -> None:
        """Move a run to the trash, or remove it for good.

        Raises:
            InvalidTransitionError: It has not ended.
        """
        stored = self.apply(run_id, DeleteRequested(purge))
        if purge:
            self.journal.remove(run_id)
            place = self.run_dir(stored).path
            await asyncio.to_thread(housekeeping.remove_files, self.home, run_id, place)

    def _move(self, place: Path, target: Path) -> None:
        # After the event: a crash in between leaves a run whose log says where it belongs, and
        # the next daemon moves it there.
        with suppress(FileNotFoundError):
            os.rename(place, target)

    def heard_from(self, run_id: str) -> None:
        """A worker called: it is alive."""
        watch = self._watches.get(run_id)
        if watch:
            watch.heartbeat_mono = time.monotonic()
            watch.vitals = replace(watch.vitals, last_heartbeat=time.time())
            if self._runs[run_id].stalled:
                self._try_apply(run_id, SignOfLife())

    def look_at(self, run_id: str) -> None:
        """Observe a run now instead of at the next turn."""
        run = self._runs.get(run_id)
        if run is not None and (run.slots or run.state is not State.INIT):
            self._observe(run)

    # ------------------------------------------------------------ life

    def recover(self) -> None:
        """Take over every run of the home; called before anybody is served."""
        intake.remove_half_made(self.home)
        sweep_leftovers()
        found = recovery.reconcile(self.home, self.registry)
        self.epoch = self.registry.next_epoch(after=found.epoch)
        ids.continue_after(found.newest_id)
        for run, vitals in found.live:
            directory = RunDirectory(self.home.run_dir(run.run_id))
            watch = Watch.of(directory, vitals)
            watch.keys = recovery.process_keys(directory) or recovery.marked_keys(run)
            self._runs[run.run_id] = run
            self._watches[run.run_id] = watch
            evidence = recovery.gather(directory, watch.keys)
            stimulus = recovery.judge(run, evidence, self.epoch)
            if stimulus is not None:
                self._try_apply(run.run_id, stimulus)
            self.look_at(run.run_id)

    async def run_forever(self) -> None:
        """Turn after turn: observe, schedule, tidy up."""
        while True:
            self._turn()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._pause_s())
            self._wake.clear()

    def stop_all(self, reason: str) -> None:
        """Stop every worker; their runs end `interrupted`."""
        for run in self.live_runs():
            if run.state is not State.INIT or run.slots:
                order = CancelRequested(self.settings.grace_s, Outcome.INTERRUPTED, reason)
                self._try_apply(run.run_id, order)

    async def close(self) -> None:
        """Let go of everything; workers go on."""
        for run_id, watch in self._watches.items():
            watch.curves.flush()
            self.registry.put_vitals(run_id, watch.vitals)
        await self.effects.close()

    # ------------------------------------------------------------ inside

    def _turn(self) -> None:
        for run in self.live_runs():
            if run.slots or run.state is not State.INIT:
                self._observe(run)
        self._publish_vitals()
        self._schedule()
        self._executor.reap()
        if time.monotonic() - self._housekept > _HOUSEKEEPING_S:
            self._housekept = time.monotonic()
            self._housekeep()

    def _pause_s(self) -> float:
        if any(watch.tailer.behind for watch in self._watches.values()):
            return 0.001
        starting = any(run.launching or run.state is State.HSHK for run in self._runs.values())
        return _BUSY_TURN_S if starting else _TURN_S

    def _observe(self, run: Run) -> None:
        watch = self._watches[run.run_id]
        offset, seq = watch.vitals.log_offset, watch.vitals.log_seq
        now = Now(time.time(), time.monotonic())
        try:
            for stimulus in observe(run, watch, self.settings, now):
                self.apply(run.run_id, stimulus)
        except StorageError as error:
            log.error("run %s: %s; it will be looked at again", run.run_id, error)
            watch.vitals = replace(watch.vitals, log_offset=offset, log_seq=seq)
            watch.tailer = Watch.of(watch.directory, watch.vitals).tailer
        except Exception:
            # One run that cannot be understood must not take the others with it.
            log.exception("run %s could not be observed", run.run_id)

    def _try_apply(self, run_id: str, stimulus: Stimulus) -> None:
        try:
            self.apply(run_id, stimulus)
        except MosaicError as error:
            log.error("%s", error)

    def _publish_vitals(self) -> None:
        now = time.monotonic()
        for run_id, watch in self._watches.items():
            if watch.vitals_dirty:
                watch.vitals_dirty = False
                watch.curves.flush()
                persist = now - watch.persisted_mono > _VITALS_PERSIST_S
                watch.persisted_mono = now if persist else watch.persisted_mono
                self.journal.publish_vitals(self._runs[run_id], watch.vitals, persist)

    def _schedule_soon(self) -> None:
        self._unscheduled = True
        self._wake.set()

    def _schedule(self) -> None:
        if not self._unscheduled:
            return
        self._unscheduled = False
        claims = [
            Claim(run.run_id, run.request, run.priority, run.run_id)
            for run in self._runs.values()
            if run.queued
        ]
        if not claims:
            return
        hold = "the daemon is draining: it starts nothing new" if self.draining else self.notice
        outcome = plan(claims, self.machine(), hold)
        for run_id, reason in outcome.waits.items():
            self._set_wait_reason(run_id, reason)
        for run_id, slots in outcome.grants.items():
            self._set_wait_reason(run_id, "")
            self._grant(self._runs[run_id], slots)

    def _grant(self, run: Run, slots: tuple[str, ...]) -> None:
        problem = self.effects.preflight(run) if run.state is State.INIT else ""
        granted = SlotsGranted(slots, self.epoch, processes.boot_id())
        self._try_apply(run.run_id, LaunchFailed(problem) if problem else granted)

    def _set_wait_reason(self, run_id: str, reason: str) -> None:
        watch = self._watches[run_id]
        if watch.wait_reason != reason:
            watch.wait_reason = reason
            watch.vitals_dirty = True

    def _look_at_the_disk(self) -> None:
        self.notice = housekeeping.space_notice(self.home, self.settings)

    def _housekeep(self) -> None:
        self._look_at_the_disk()
        housekeeping.cap_logs((watch.directory for watch in self._watches.values()), self.settings)
        with suppress(StorageError):
            for stored in self.registry.deleted():
                if housekeeping.has_expired(self.run_dir(stored).path, self.settings):
                    self.effects.spawn_task(self.delete(stored.run.run_id, purge=True))
        self._unscheduled = True

    def _archive(self, run: Run, slots: tuple[str, ...]) -> None:
        """Keep the logs of an ended run and forget it as a live one."""
        watch = self._watches.pop(run.run_id)
        watch.curves.close()
        del self._runs[run.run_id]
        self.effects.close_control(run.run_id)
        self.journal.publish(run, watch.vitals)
        self.slots.drain(slots, [key.pid for key in watch.keys])
        housekeeping.keep_logs(self.home, run.run_id, watch.directory)
        sweep_leftovers(run.run_id, run_dir=watch.directory.path)
        self._schedule_soon()
        if run.outcome == Outcome.LOST and self.settings.retry_lost:
            self._retry(run)

    def _retry(self, run: Run) -> None:
        document = read_json(RunDirectory(self.home.run_dir(run.run_id)).config)
        if document is None or run.tags[-1:] == ("retry",):
            return
        document["metadata"]["tags"] = [*run.tags, "retry"]
        submission = intake.Submission(
            json.dumps(document), priority=run.priority, cold=run.cold, parent_run_id=run.run_id
        )
        self.effects.spawn_task(self.submit(submission))
