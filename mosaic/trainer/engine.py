"""The daemon's heart: stimuli in, events recorded, instructions carried out, in one loop."""

import asyncio
import json
import logging
import os
import shutil
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from mosaic.config.paths import Home
from mosaic.config.secrets import SecretStore
from mosaic.config.settings import Settings
from mosaic.errors import InvalidTransitionError, RunNotFoundError, StorageError
from mosaic.runs.directory import RunDirectory, read_json, remove_tree
from mosaic.trainer import failpoints, hardware, intake, launch, processes, recovery
from mosaic.trainer.decisions import (
    Archive,
    CancelRequested,
    Instruction,
    KillEverything,
    Launch,
    LaunchFailed,
    Now,
    SendControl,
    SignalGroup,
    SlotsGranted,
    Stimulus,
    decide,
)
from mosaic.trainer.executor import Executor
from mosaic.trainer.journal import Journal
from mosaic.trainer.observer import Watch, observe
from mosaic.trainer.registry import Registry, StoredRun, Vitals
from mosaic.trainer.scheduler import Claim, Machine, plan
from mosaic.trainer.slots import SlotTable
from mosaic.trainer.states import Outcome, Run, State
from mosaic.trainer.tailer import cap_log
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
        epoch: int,
    ) -> None:
        self.home = home
        self.settings = settings
        self.registry = registry
        self.workers = workers
        self.journal = Journal(registry)
        self.slots = SlotTable(settings)
        self.draining = False
        self.target = ""
        self._executor = executor
        self._token = token
        self._epoch = epoch
        self._runs: dict[str, Run] = {}
        self._watches: dict[str, Watch] = {}
        self._controls: dict[str, asyncio.Queue[str]] = {}
        self._keys: dict[str, str] = {}
        self._unscheduled = True
        self._wake = asyncio.Event()
        self._launches: set[asyncio.Future[Any]] = set()
        self._housekept = time.monotonic()
        self._notice = ""

    # ------------------------------------------------------------ reading

    @property
    def notice(self) -> str:
        """What the user should know about the daemon now."""
        return self._notice

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
        known = self._keys.get(key) or (self.registry.find_by_key(key) if key else None)
        if known:
            return self.stored(known), False
        run_id = intake.choose_run_id(key)
        if key:
            self._keys[key] = run_id
        try:
            machine = self.machine()
            capacity = intake.Capacity(len(machine.cpus), len(machine.gpus))
            self._refuse_when_full()
            config = await asyncio.to_thread(
                intake.validate, submission.config_json, self.workers, capacity
            )
            await asyncio.to_thread(intake.write_files, self.home, run_id, submission, config)
        except BaseException as error:
            self._keys.pop(key, None)
            if isinstance(error, FileExistsError):
                return await self._existing(run_id), False
            raise
        directory = RunDirectory(self.home.run_dir(run_id))
        first = ("submitted", intake.first_event(submission, config, self.workers))
        run = self.journal.record(Run(run_id), directory.path, [first], Vitals())
        self._runs[run_id] = run
        self._watches[run_id] = Watch.of(directory, Vitals(total=run.total_timesteps))
        self._schedule_soon()
        return self.stored(run_id), True

    async def _existing(self, run_id: str) -> StoredRun:
        """A run another call is just taking in under the same id."""
        for _ in range(100):
            with suppress(RunNotFoundError):
                return self.stored(run_id)
            await asyncio.sleep(0.02)
        raise RunNotFoundError(f"run {run_id} exists on disk but not in the registry")

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
            vitals = self._watches[run_id].vitals if run_id in self._watches else stored.vitals
            directory = self.run_dir(stored).path
            run = self.journal.record(run, directory, decision.events, vitals)
            if run_id in self._runs:
                self._runs[run_id] = run
            self._unscheduled = True
        for instruction in decision.instructions:
            self._carry_out(run, instruction)
        return StoredRun(run, stored.vitals, stored.sequence)

    def annotate(self, run_id: str, changes: Mapping[str, Any]) -> StoredRun:
        """Change what people wrote about a run: name, notes, tags."""
        return self._record(run_id, "annotated", changes)

    def delete(self, run_id: str, purge: bool) -> None:
        """Move a run to the trash, or remove it for good.

        Raises:
            InvalidTransitionError: It has not ended.
        """
        stored = self.stored(run_id)
        if stored.run.live:
            raise InvalidTransitionError(
                f"run {run_id} is {stored.run.state}; cancel it first: mosaic cancel {run_id}"
            )
        if purge:
            remove_tree(self.run_dir(stored).path)
            for name in (f"config-{run_id}.json", f"worker-{run_id}.json"):
                (self.home.configs / name).unlink(missing_ok=True)
            remove_tree(self.home.logs / run_id)
            SecretStore(self.home.secrets).delete(run_id)
            self.journal.remove(run_id)
        elif not stored.run.deleted:
            self._record(run_id, "deleted", {})
            with suppress(FileNotFoundError):
                os.rename(self.home.runs / run_id, self.home.trash / run_id)

    def restore(self, run_id: str) -> StoredRun:
        """Take a run back out of the trash."""
        stored = self.stored(run_id)
        if not stored.run.deleted:
            return stored
        with suppress(FileNotFoundError):
            os.rename(self.home.trash / run_id, self.home.runs / run_id)
        return self._record(run_id, "restored", {})

    def heard_from(self, run_id: str) -> None:
        """A worker called: it is alive."""
        watch = self._watches.get(run_id)
        if watch:
            watch.heartbeat_mono = time.monotonic()
            watch.vitals = replace(watch.vitals, last_heartbeat=time.time())

    def look_at(self, run_id: str) -> None:
        """Observe a run now instead of at the next turn."""
        run = self._runs.get(run_id)
        if run is not None and (run.slots or run.state is not State.INIT):
            self._observe(run)

    def open_control(self, run_id: str) -> "asyncio.Queue[str]":
        """The commands for a worker's control stream, with those it may have missed."""
        commands: asyncio.Queue[str] = asyncio.Queue()
        self._controls[run_id] = commands
        run = self.stored(run_id).run
        if run.pausing and not run.pause_by_signal and run.state is State.EXEC:
            commands.put_nowait("pause")
        if run.state is State.PAUSE and run.resuming and run.slots:
            commands.put_nowait("resume")
        return commands

    def close_control(self, run_id: str, commands: "asyncio.Queue[str]") -> None:
        """The control stream ended."""
        if self._controls.get(run_id) is commands:
            del self._controls[run_id]

    # ------------------------------------------------------------ life

    def recover(self) -> None:
        """Take over every run of the home; called before anybody is served."""
        for run, vitals in recovery.reconcile(self.home, self.registry):
            directory = RunDirectory(self.home.run_dir(run.run_id))
            self._runs[run.run_id] = run
            self._watches[run.run_id] = Watch.of(directory, vitals)
            evidence = recovery.gather(run, directory)
            stimulus = recovery.judge(run, evidence, self._epoch)
            if stimulus is not None:
                self._try_apply(run.run_id, stimulus)
            self.look_at(run.run_id)

    async def run_forever(self) -> None:
        """Turn after turn: observe, schedule, tidy up."""
        while True:
            self._turn()
            busy = any(run.launching or run.state is State.HSHK for run in self._runs.values())
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), _BUSY_TURN_S if busy else _TURN_S)
            self._wake.clear()

    def stop_all(self, reason: str) -> None:
        """Stop every worker; their runs end `interrupted`."""
        for run in self.live_runs():
            if run.state is not State.INIT or run.slots:
                order = CancelRequested(self.settings.grace_s, Outcome.INTERRUPTED, reason)
                self._try_apply(run.run_id, order)

    async def close(self) -> None:
        """Let go of everything; workers go on."""
        for task in self._launches:
            task.cancel()
        for watch_id, watch in self._watches.items():
            self.registry.put_vitals(watch_id, watch.vitals)
        await self._executor.close()

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
        except InvalidTransitionError as error:
            log.error("%s", error)

    def _try_apply(self, run_id: str, stimulus: Stimulus) -> None:
        try:
            self.apply(run_id, stimulus)
        except (InvalidTransitionError, StorageError) as error:
            log.error("%s", error)

    def _record(self, run_id: str, kind: str, data: Mapping[str, Any]) -> StoredRun:
        stored = self.stored(run_id)
        directory = self.run_dir(stored).path
        run = self.journal.record(stored.run, directory, [(kind, data)], stored.vitals)
        if run_id in self._runs:
            self._runs[run_id] = run
        return replace(stored, run=run)

    def _publish_vitals(self) -> None:
        now = time.monotonic()
        for run_id, watch in self._watches.items():
            if watch.vitals_dirty:
                watch.vitals_dirty = False
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
        outcome = plan(claims, self.machine(), hold=self._hold())
        for run_id, reason in outcome.waits.items():
            self._set_wait_reason(run_id, reason)
        for run_id, slots in outcome.grants.items():
            self._set_wait_reason(run_id, "")
            self._try_apply(run_id, SlotsGranted(slots, self._epoch, processes.boot_id()))

    def _set_wait_reason(self, run_id: str, reason: str) -> None:
        watch = self._watches[run_id]
        if watch.wait_reason != reason:
            watch.wait_reason = reason
            watch.vitals_dirty = True

    def _hold(self) -> str:
        if self.draining:
            return "the daemon is draining: it starts nothing new"
        return self._notice

    def _refuse_when_full(self) -> None:
        free, kept = hardware.disk_free_mb(self.home.root), self.settings.min_free_disk_mb
        full = free < kept
        self._notice = f"disk almost full: {free} MB free, {kept} MB are kept" if full else ""
        if full:
            raise StorageError(f"{self._notice}; free some space under {self.home.root}")

    def _housekeep(self) -> None:
        with suppress(StorageError):
            self._refuse_when_full()
        for watch in self._watches.values():
            for path in (watch.directory.stdout, watch.directory.stderr):
                cap_log(path, self.settings.log_cap_mb * 2**20)
        oldest = time.time() - self.settings.trash_days * 86400
        for stored in self.registry.deleted():
            if self.run_dir(stored).path.exists():
                moved = self.run_dir(stored).path.stat().st_ctime
                if moved < oldest:
                    self.delete(stored.run.run_id, purge=True)
        self._unscheduled = True

    # ------------------------------------------------------------ effects

    def _carry_out(self, run: Run, instruction: Instruction) -> None:
        match instruction:
            case Launch():
                task = asyncio.ensure_future(self._launch(run))
                self._launches.add(task)
                task.add_done_callback(self._launches.discard)
            case SignalGroup():
                self._signal(run, instruction.number)
            case KillEverything():
                self._signal(run, signal.SIGKILL)
                processes.kill_marked(run.run_id, besides=self._supervisor(run))
            case SendControl():
                commands = self._controls.get(run.run_id)
                if commands is not None:
                    commands.put_nowait(instruction.command)
            case Archive():
                self._archive(run)

    async def _launch(self, run: Run) -> None:
        worker = self.workers.get(run.worker)
        problem = launch.preflight(run, worker)
        if problem or worker is None or worker.capabilities is None:
            self._try_apply(run.run_id, LaunchFailed(problem))
            return
        failpoints.point("before_spawn")
        on_gpu = any(slot.startswith("gpu:") for slot in run.slots)
        warm = self.settings.warm_start and not run.cold and not on_gpu
        modules = worker.capabilities.warm_modules if warm else ()
        try:
            spec = launch.build_spec(run, self.home, self._token, self.target, self._variables(run))
            await self._executor.launch(spec, modules)
        except OSError as error:
            command = f"python -m {run.module}"
            reason = f"cannot start `{command}`: {error.strerror or error}; run: mosaic doctor"
            self._try_apply(run.run_id, LaunchFailed(reason))
            return
        failpoints.point("after_spawn")

    def _variables(self, run: Run) -> dict[str, str]:
        """The extra environment of a run's config, references resolved."""
        document = read_json(RunDirectory(self.home.run_dir(run.run_id)).config) or {}
        variables: dict[str, str] = document.get("environment", {})
        secrets = SecretStore(self.home.secrets).get(run.run_id)
        return {
            name: secrets.get(value.removeprefix("secret://"), value)
            for name, value in variables.items()
        }

    def _signal(self, run: Run, number: int) -> None:
        """Signal the group, if it is still ours."""
        key = self._watches[run.run_id].worker_key() if run.run_id in self._watches else None
        if key is None:
            return
        ours = processes.is_alive(key) or any(
            processes.has_marker(pid, run.run_id) for pid in processes.group_members(key.pid)
        )
        if ours:
            processes.signal_group(key.pid, number)

    def _supervisor(self, run: Run) -> frozenset[int]:
        watch = self._watches.get(run.run_id)
        return frozenset(key.pid for key in watch.keys[1:]) if watch else frozenset()

    def _archive(self, run: Run) -> None:
        """Keep the logs of an ended run and forget it as a live one."""
        watch = self._watches.pop(run.run_id, None)
        previous = self._runs.pop(run.run_id, run)
        self._controls.pop(run.run_id, None)
        if watch is None:
            return
        self.journal.publish(run, watch.vitals)
        self.slots.drain(previous.slots, [key.pid for key in watch.keys])
        self._keep_logs(run, watch)
        self._schedule_soon()
        if run.outcome == Outcome.LOST and self.settings.retry_lost:
            self._retry(run)

    def _keep_logs(self, run: Run, watch: Watch) -> None:
        """Hard-link the logs into the archive: no copy, and they outlive the run directory."""
        archive = self.home.logs / run.run_id
        try:
            archive.mkdir(exist_ok=True)
            for path in (watch.directory.stdout, watch.directory.stderr):
                if path.exists() and not (archive / path.name).exists():
                    try:
                        os.link(path, archive / path.name)
                    except OSError:
                        shutil.copyfile(path, archive / path.name)
        except OSError as error:
            log.error("the logs of run %s could not be archived: %s", run.run_id, error)

    def _retry(self, run: Run) -> None:
        document = read_json(RunDirectory(self.home.run_dir(run.run_id)).config)
        if document is None or run.tags[-1:] == ("retry",):
            return
        document["metadata"]["tags"] = [*run.tags, "retry"]
        submission = intake.Submission(
            json.dumps(document), priority=run.priority, cold=run.cold, parent_run_id=run.run_id
        )
        task = asyncio.ensure_future(self.submit(submission))
        self._launches.add(task)
        task.add_done_callback(self._launches.discard)


def summary(runs: Iterable[Run]) -> tuple[int, int]:
    """How many of the live runs wait, and how many have slots."""
    states = [run.queued for run in runs]
    return sum(states), len(states) - sum(states)
