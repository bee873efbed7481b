"""This machine: the daemon sees the processes itself."""

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from mosaic.config.json_types import JsonValue
from mosaic.config.sites import LOCAL
from mosaic.runs import opening
from mosaic.runs.opening import read_document
from mosaic.system import processes
from mosaic.trainer.core.decisions import Now
from mosaic.trainer.core.evidence import Alive, News, Over
from mosaic.trainer.core.scheduler import Machine
from mosaic.trainer.core.states import Run, State
from mosaic.trainer.launch import spec as launch
from mosaic.trainer.launch.executor import Executor, LaunchSpec
from mosaic.trainer.sites.relay import FrameRelay

if TYPE_CHECKING:
    from mosaic.trainer.loop.slots import SlotTable
    from mosaic.trainer.loop.watch import Watch

log = logging.getLogger(__name__)


class LocalSite:
    """Processes of this machine, in the slots of this machine."""

    def __init__(self, executor: Executor, slots: "SlotTable") -> None:
        self._executor = executor
        self._slots = slots

    async def place(self, run: Run, spec: LaunchSpec, warm_modules: Sequence[str]) -> str:
        await self._executor.launch(spec, warm_modules)
        return ""

    def news(self, run: Run, watch: "Watch", now: Now) -> News:
        # Asked first, because nearly always there is nothing yet.
        if os.path.lexists(watch.directory.exit):
            # A folder in the record's place would keep the supervisor from ever writing it.
            if opening.clear_the_way(watch.directory.exit):
                log.warning("run %s: its exit.json was not a file; it is set aside", run.run_id)
            ended = read_document(watch.directory.exit)
            if ended is not None:
                return Over(ended)
        if run.state is State.INIT or watch.anyone_alive():
            return Alive()
        # Read again: the supervisor may have written it between our first look and its own end.
        return Over(read_document(watch.directory.exit) or {}, self._vanished(run))

    def withdraw(self, run: Run, watch: "Watch") -> bool:
        return launch.prevent_start(watch.directory)

    def signal(self, run: Run, watch: "Watch", number: int) -> None:
        # Asked first because it finds a worker that was started again since the last turn.
        watch.anyone_alive()
        key = watch.worker_key()
        if key is None:
            return
        ours = processes.is_alive(key) or any(
            processes.has_marker(pid, run.run_id) for pid in processes.group_members(key.pid)
        )
        if ours:
            processes.signal_group(key.pid, number)

    def sweep(self, run: Run, watch: "Watch") -> None:
        supervisor = _supervisor(watch)
        processes.kill_marked(run.run_id, besides=supervisor)
        # What lost its supervisor and its marker, but still prints into the run's logs.
        if not any(processes.is_alive(key) for key in watch.keys[1:]):
            logs = (watch.directory.stdout, watch.directory.stderr)
            processes.kill_all(pid for pid in processes.writing_to(logs) if pid not in supervisor)

    def left(self, run: Run, watch: "Watch", record: Mapping[str, JsonValue]) -> int:
        # A run is over when no process carries its marker any more. Its slots are freed on this
        # proof, never on the worker's word.
        supervisor = _supervisor(watch)
        left = set(processes.marked_processes(run.run_id, besides=supervisor))
        if not record:
            # Without its supervisor, which nothing can leave, whatever still prints into its logs
            # is taken for its own.
            logs = (watch.directory.stdout, watch.directory.stderr)
            left |= set(processes.writing_to(logs)) - supervisor
        return len(left)

    def relay(self, run: Run) -> FrameRelay | None:
        return None

    def capacity(self, runs: Iterable[Run]) -> Machine | None:
        return self._slots.picture(run for run in runs if run.site == LOCAL)

    def forget(self, run: Run) -> None:
        """Nothing is kept."""

    def reap(self) -> None:
        self._executor.reap()

    async def close(self) -> None:
        await self._executor.close()

    @staticmethod
    def _vanished(run: Run) -> str:
        if run.boot_id and run.boot_id != processes.boot_id():
            return "lost: the machine was restarted while it ran"
        return "lost: the worker and its supervisor vanished without an exit record"


def _supervisor(watch: "Watch") -> frozenset[int]:
    return frozenset(key.pid for key in watch.keys[1:])
