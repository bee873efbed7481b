"""Carrying out what was decided: starting, signalling and talking to workers."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from mosaic.config.paths import Home
from mosaic.config.secrets import REFERENCE_PREFIX, SecretStore
from mosaic.config.settings import Settings
from mosaic.errors import MosaicError
from mosaic.runs.directory import RunDirectory
from mosaic.system import processes
from mosaic.trainer import failpoints
from mosaic.trainer.core.decisions import (
    Instruction,
    KillEverything,
    Launch,
    PreventStart,
    SendControl,
    SignalGroup,
)
from mosaic.trainer.core.states import Run, State
from mosaic.trainer.core.stimuli import (
    LaunchFailed,
    Stimulus,
)
from mosaic.trainer.launch import spec as launch
from mosaic.trainer.launch.environments import RunEnvironments
from mosaic.trainer.launch.executor import Executor
from mosaic.trainer.loop.observer import Watch
from mosaic.workers.discovery import DiscoveredWorker, own_variables

Report = Callable[[str, Stimulus], None]


class Effects:
    """The hands of the engine. What it finds out on the way goes back as stimuli.

    Attributes:
        target: The daemon's address, known once it listens.
        environments: What waiting runs want in their environment.
    """

    def __init__(
        self,
        home: Home,
        settings: Settings,
        workers: dict[str, DiscoveredWorker],
        executor: Executor,
        token: bytes,
        report: Report,
    ) -> None:
        self.target = ""
        self._home = home
        self._settings = settings
        self._workers = workers
        self._executor = executor
        self._token = token
        self._report = report
        self._controls: dict[str, asyncio.Queue[str]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.environments = RunEnvironments(home)

    def carry_out(self, run: Run, watch: Watch | None, instruction: Instruction) -> None:
        """Do one thing to a run's processes."""
        match instruction:
            case Launch():
                self.spawn_task(self._launch(run))
            case PreventStart():
                launch.forestall(RunDirectory(self._home.run_dir(run.run_id)))
            case SignalGroup():
                _signal(run, watch, instruction.number)
            case KillEverything():
                _signal(run, watch, signal.SIGKILL)
                supervisor = frozenset(key.pid for key in watch.keys[1:]) if watch else frozenset()
                processes.kill_marked(run.run_id, besides=supervisor)
            case SendControl():
                commands = self._controls.get(run.run_id)
                if commands is not None:
                    commands.put_nowait(instruction.command)

    def preflight(self, run: Run) -> str:
        """Why a run cannot be started at all, with the fix; empty when it can."""
        if self.environments.find(run.run_id) is None:
            config = RunDirectory(self._home.run_dir(run.run_id)).config
            return f"{config} is gone or damaged; submit the run again"
        return launch.preflight(run, self._workers.get(run.worker))

    def spawn_task(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run something beside the loop; it is cancelled when the daemon leaves."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def open_control(self, run: Run) -> "asyncio.Queue[str]":
        """The commands for a worker's control stream, with those it may have missed."""
        commands: asyncio.Queue[str] = asyncio.Queue()
        self._controls[run.run_id] = commands
        if run.pausing and not run.resuming and run.state is State.EXEC:
            commands.put_nowait("pause")
        if run.resuming and run.slots and not run.pause_by_signal:
            commands.put_nowait("resume")
        if run.checkpointing:
            commands.put_nowait("checkpoint")
        return commands

    def close_control(self, run_id: str, commands: "asyncio.Queue[str] | None" = None) -> None:
        """The control stream ended, or its run did."""
        if commands is None or self._controls.get(run_id) is commands:
            self._controls.pop(run_id, None)
        if commands is None:
            self.environments.forget(run_id)

    async def close(self) -> None:
        """Let go of everything; workers go on."""
        for task in tuple(self._tasks):
            task.cancel()
        await self._executor.close()

    async def _launch(self, run: Run) -> None:
        failpoints.point("before_spawn")
        worker = self._workers[run.worker].capabilities
        on_gpu = any(slot.startswith("gpu:") for slot in run.slots)
        warm = self._settings.warm_start and not run.cold and not on_gpu
        modules = worker.warm_modules if worker and warm else ()
        try:
            variables = self._variables(run)
            spec = launch.build_spec(
                run,
                self._home,
                self._token,
                self.target,
                variables,
                self._settings.worker_variables,
                own_variables(self._workers.values()),
            )
            await self._executor.launch(spec, modules)
        except (OSError, MosaicError) as error:
            problem = error.strerror if isinstance(error, OSError) else str(error)
            reason = f"cannot start `python -m {run.module}`: {problem}; run: mosaic doctor"
            self._report(run.run_id, LaunchFailed(reason))
            return
        failpoints.point("after_spawn")

    def _variables(self, run: Run) -> dict[str, str]:
        """The extra environment of a run's config, references resolved."""
        variables = self.environments.take(run.run_id)
        secrets = SecretStore(self._home.secrets).get(run.run_id)
        return {
            name: secrets.get(value.removeprefix(REFERENCE_PREFIX), value)
            for name, value in variables.items()
        }


def _signal(run: Run, watch: Watch | None, number: int) -> None:
    """Signal the group, if it is still ours."""
    key = watch.worker_key() if watch else None
    if key is None:
        return
    ours = processes.is_alive(key) or any(
        processes.has_marker(pid, run.run_id) for pid in processes.group_members(key.pid)
    )
    if ours:
        processes.signal_group(key.pid, number)
