"""Carrying out what was decided: starting, signalling and talking to workers, moving files."""

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mosaic.config.paths import Home
from mosaic.config.secrets import REFERENCE_PREFIX, SecretStore
from mosaic.config.settings import Settings
from mosaic.config.sites import LOCAL
from mosaic.errors import EngineSilentError, MosaicError
from mosaic.runs.directory import RunDirectory
from mosaic.runs.pins import pin
from mosaic.system.shortage import shortage
from mosaic.trainer import failpoints
from mosaic.trainer.core.instructions import (
    Archive,
    Instruction,
    KillEverything,
    Launch,
    MoveBack,
    MoveToTrash,
    PinCheckpoint,
    PreventStart,
    SendControl,
    SignalGroup,
    Withdraw,
)
from mosaic.trainer.core.states import Run
from mosaic.trainer.core.stimuli import JobPlaced, LaunchFailed, LaunchUndone, Stimulus
from mosaic.trainer.launch import attempts
from mosaic.trainer.launch import spec as launch
from mosaic.trainer.launch.controls import ControlStreams
from mosaic.trainer.launch.environments import RunEnvironments
from mosaic.trainer.loop.background import BackgroundTasks
from mosaic.trainer.loop.endings import Endings
from mosaic.trainer.loop.patience import LaunchPatience
from mosaic.trainer.loop.trash import move
from mosaic.trainer.loop.watch import Watch
from mosaic.trainer.sites.choice import Sites
from mosaic.workers.discovery import DiscoveredWorker, own_variables
from mosaic.workers.fitting import modules_for

Report = Callable[[str, Stimulus], None]

log = logging.getLogger(__name__)


class Effects:
    """The hands of the engine. What it finds out on the way goes back as stimuli.

    Attributes:
        target: The daemon's address, known once it listens.
    """

    def __init__(
        self,
        home: Home,
        settings: Settings,
        workers: dict[str, DiscoveredWorker],
        sites: Sites,
        token: bytes,
        report: Report,
        controls: ControlStreams,
        environments: RunEnvironments,
        endings: Endings,
        tasks: BackgroundTasks,
        patience: LaunchPatience,
    ) -> None:
        self.target = ""
        self._home = home
        self._settings = settings
        self._workers = workers
        self._sites = sites
        self._token = token
        self._report = report
        self._controls = controls
        self._endings = endings
        self._tasks = tasks
        self._environments = environments
        self._patience = patience

    def carry_out(self, run: Run, watch: Watch | None, instruction: Instruction) -> None:
        """Do one thing to a run's processes or files."""
        match instruction:
            case Launch():
                # Beside the loop: `apply` must not wait, and a warm start waits for its zygote.
                self._tasks.start(self._launch(run))
            case PreventStart() | Withdraw():
                self._withdraw(run, watch)
            case SignalGroup():
                if instruction.number == signal.SIGTERM:
                    self._leave_it_dead(run)
                if watch is not None:
                    self._sites.of(run).signal(run, watch, instruction.number)
            case KillEverything():
                self._leave_it_dead(run)
                if watch is not None:
                    # The group first, in one stroke; then what has left it. Only the supervisor is
                    # spared: it writes down how the worker ended.
                    site = self._sites.of(run)
                    site.signal(run, watch, signal.SIGKILL)
                    site.sweep(run, watch)
            case SendControl():
                self._controls.send(run.run_id, instruction.command)
            case PinCheckpoint():
                _pin(self._home.run_dir(run.run_id), instruction.path)
            case Archive():
                self._endings.archive(run, instruction.slots)
                self._sites.of(run).forget(run)
            case MoveToTrash():
                move(self._home.run_dir(run.run_id), self._home.trash / run.run_id)
            case MoveBack():
                move(self._home.trash / run.run_id, self._home.run_dir(run.run_id))

    def _withdraw(self, run: Run, watch: Watch | None) -> None:
        """Keep a run from beginning; one that was to end has ended with that."""
        if watch is not None and self._sites.of(run).withdraw(run, watch) and run.placed:
            self._report_soon(run.run_id, LaunchUndone())

    def _report_soon(self, run_id: str, stimulus: Stimulus) -> None:
        # In a step of its own: the one under way has not been carried out to its end.
        asyncio.get_running_loop().call_soon(self._report, run_id, stimulus)

    def _leave_it_dead(self, run: Run) -> None:
        """Keep the supervisor from starting a worker again that is about to be killed."""
        # Before the signal: the supervisor looks for the mark after it has written down a new
        # worker, so that either it sees the mark or the signal finds that worker.
        if self._restarts(run):
            with suppress(OSError):  # on a full disk the next signal ends the new worker too
                RunDirectory(self._home.run_dir(run.run_id), run.attempt).stop_asked.touch()

    def _restarts(self, run: Run) -> int:
        known = self._workers.get(run.worker)
        worker = known.capabilities if known else None
        return launch.MOST_RESTARTS if worker and worker.restarts_after_kill else 0

    def preflight(self, run: Run) -> str:
        """Why a run cannot be started at all, with the fix; empty when it can."""
        if self._environments.find(run.run_id) is None:
            config = RunDirectory(self._home.run_dir(run.run_id)).config
            return f"{config} is gone or damaged; submit the run again"
        return launch.preflight(run, self._workers.get(run.worker))

    async def close(self) -> None:
        """End what the daemon started for itself; workers continue."""
        await self._sites.close()

    async def _launch(self, run: Run) -> None:
        failpoints.point("before_spawn")
        worker = self._workers[run.worker].capabilities
        on_gpu = any(slot.startswith("gpu:") for slot in run.slots)
        warm = self._settings.warm_start and not run.cold and not on_gpu
        modules = modules_for(worker, run.algo) if worker and warm else ()
        site = self._sites.of(run)
        try:
            if run.attempt > 1:
                await asyncio.to_thread(attempts.prepare, self._home, run, worker)
            variables = self._variables(run)
            spec = launch.build_spec(
                run,
                self._home,
                self._token,
                self.target,
                variables,
                self._settings.worker_variables,
                own_variables(self._workers.values()),
                self._restarts(run),
            )
            job = await site.place(run, spec, modules)
        except EngineSilentError as error:
            self._report(run.run_id, LaunchUndone(self._patience.hold_back(run.site, str(error))))
            return
        except (OSError, MosaicError) as error:
            lacking = shortage(error)
            if lacking:
                # Nothing was started and nothing is wrong with the run: it waits for room.
                reason = self._patience.short_of(lacking, run.site)
                self._report(run.run_id, LaunchUndone(reason))
                return
            problem = error.strerror if isinstance(error, OSError) else str(error)
            reason = f"cannot start `python -m {run.module}`: {problem}; run: mosaic doctor"
            if run.site != LOCAL:
                reason = f"{run.site} did not take it: {problem}"
            self._report(run.run_id, LaunchFailed(reason))
            return
        failpoints.point("after_place")
        self._patience.started(run.site)
        if job:
            self._report(run.run_id, JobPlaced(job))
        failpoints.point("after_spawn")

    def _variables(self, run: Run) -> dict[str, str]:
        """The extra environment of a run's config, references resolved."""
        variables = self._environments.take(run.run_id)
        secrets = SecretStore(self._home.secrets).get(run.run_id)
        return {
            name: secrets.get(value.removeprefix(REFERENCE_PREFIX), value)
            if value.startswith(REFERENCE_PREFIX)
            else value
            for name, value in variables.items()
        }


def _pin(run_dir: Path, checkpoint: str) -> None:
    # A checkpoint that cannot be pinned costs a way back, never the run.
    try:
        pin(run_dir, checkpoint)
    except (OSError, ValueError) as error:
        log.warning("%s of %s could not be pinned: %s", checkpoint, run_dir.name, error)
