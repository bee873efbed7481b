"""The gRPC handlers of clients. Thin: translate, hand to the engine, translate back."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

from mosaic import __version__
from mosaic.connect import auth
from mosaic.connect.failures import problem_messages
from mosaic.errors import (
    InvalidArgumentError,
    InvalidConfigError,
)
from mosaic.runs import eventlog
from mosaic.trainer.api.archive_service import ArchiveHandlers
from mosaic.trainer.api.file_service import FileHandlers
from mosaic.trainer.api.messages import run_message
from mosaic.trainer.api.observation_service import ObservationHandlers
from mosaic.trainer.api.resolve import resolve_run
from mosaic.trainer.api.streams import StreamHandlers
from mosaic.trainer.api.worker_service import WorkerHandlers
from mosaic.trainer.core.states import Run, evolve
from mosaic.trainer.core.stimuli import (
    AnnotateRequested,
    CancelRequested,
    CheckpointRequested,
    PauseRequested,
    RestoreRequested,
    ResumeRequested,
    Stimulus,
)
from mosaic.trainer.launch import hardware
from mosaic.trainer.loop import intake, slots
from mosaic.trainer.loop.engine import Engine
from mosaic.trainer.storage import history
from mosaic.trainer.storage.broadcast import Missed
from mosaic.trainer.storage.paging import SORTABLE, Query
from mosaic.trainer.storage.registry import StoredRun
from mosaic.wire import trainer_pb2 as pb
from mosaic.wire import trainer_pb2_grpc
from mosaic.workers.capabilities import PROTOCOL_VERSION

_MAX_PAGE = 500
_MAX_GRACE_S = 86_400.0
_MAX_KEY = 200

Shutdown = Callable[["pb.ShutdownRequest.Runs"], None]


class TrainerService(
    StreamHandlers,
    FileHandlers,
    ArchiveHandlers,
    WorkerHandlers,
    ObservationHandlers,
    trainer_pb2_grpc.TrainerServicer,
):
    """Everything a client may ask."""

    def __init__(self, engine: Engine, token: bytes, instance: str, shutdown: Shutdown) -> None:
        self.engine = engine
        self.token = token
        ObservationHandlers.__init__(self)
        self._instance = instance
        self._shutdown = shutdown
        self._started = time.monotonic()

    # ------------------------------------------------------------ the daemon

    async def GetHealth(self, request: pb.GetHealthRequest, _: Any) -> pb.Health:  # noqa: N802
        return pb.Health(
            proof=auth.proof(self.token, request.challenge[:64]),
            instance=self._instance,
            version=__version__,
            protocol=PROTOCOL_VERSION,
            epoch=self.engine.epoch,
            draining=self.engine.draining,
            pid=os.getpid(),
            uptime_s=time.monotonic() - self._started,
            notice=self.engine.notice,
        )

    async def GetResources(self, _: Any, __: Any) -> pb.Resources:  # noqa: N802
        machine = self.engine.machine()
        names = {f"gpu:{gpu.index}": gpu.name for gpu in self.engine.slots.gpus}
        queued, running = slots.count(self.engine.live_runs())
        return pb.Resources(
            slots=[
                pb.Slot(
                    id=slot,
                    run_id=machine.held.get(slot, ""),
                    draining=slot in machine.draining,
                    detail=names.get(slot, machine.busy.get(slot, "")),
                )
                for slot in (*machine.cpus, *machine.gpus)
            ],
            cpus_total=len(machine.cpus),
            cpus_free=len(machine.free(machine.cpus)),
            memory_total_mb=machine.memory_mb,
            memory_free_mb=hardware.memory_available_mb(),
            disk_free_mb=hardware.disk_free_mb(self.engine.home.root),
            queued=queued,
            running=running,
            cpu_percent=hardware.cpu_percent(),
            memory_percent=hardware.memory_percent(),
        )

    async def ListWorkers(self, _: Any, __: Any) -> pb.ListWorkersReply:  # noqa: N802
        return pb.ListWorkersReply(
            workers=[
                pb.Worker(
                    type=worker.worker_type,
                    display_name=worker.display_name,
                    available=worker.capabilities is not None,
                    problem=worker.problem,
                    capabilities_json=worker.capabilities.to_json() if worker.capabilities else "",
                )
                for worker in self.engine.workers.values()
            ]
        )

    async def Shutdown(self, request: pb.ShutdownRequest, _: Any) -> pb.ShutdownReply:  # noqa: N802
        live = [run for run in self.engine.live_runs() if not run.queued]
        self._shutdown(request.runs)
        return pb.ShutdownReply(live_runs=len(live))

    # ------------------------------------------------------------ runs

    async def ValidateRun(  # noqa: N802
        self, request: pb.SubmitRunRequest, _: Any
    ) -> pb.ValidateRunReply:
        capacity = intake.Capacity.of(self.engine.machine())
        try:
            await asyncio.to_thread(
                intake.validate, request.config_json, self.engine.workers, capacity
            )
        except InvalidConfigError as error:
            return pb.ValidateRunReply(problems=problem_messages(error.problems))
        return pb.ValidateRunReply()

    async def SubmitRun(  # noqa: N802
        self, request: pb.SubmitRunRequest, context: grpc.aio.ServicerContext
    ) -> pb.SubmitRunReply:
        if len(request.idempotency_key) > _MAX_KEY:
            raise InvalidArgumentError(f"an idempotency key has at most {_MAX_KEY} characters")
        parent = request.parent_run_id
        if parent:
            parent = (await resolve_run(self.engine, parent)).run.run_id
        submission = intake.Submission(
            config_json=request.config_json,
            idempotency_key=request.idempotency_key,
            priority=request.priority,
            cold=request.cold,
            parent_run_id=parent,
        )
        stored, created = await self.engine.submit(submission)
        return pb.SubmitRunReply(run=self._message(stored), created=created)

    async def GetRun(self, request: pb.GetRunRequest, _: Any) -> pb.Run:  # noqa: N802
        return self._message(await resolve_run(self.engine, request.run_id))

    async def ListRuns(  # noqa: N802
        self, request: pb.ListRunsRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListRunsReply:
        sort = request.sort or "-created_at"
        if sort.lstrip("-") not in SORTABLE:
            raise InvalidArgumentError(
                f"runs cannot be sorted by {sort!r}; allowed: {', '.join(SORTABLE)}"
            )
        query = Query(
            page_size=min(request.page_size or 50, _MAX_PAGE),
            page_token=request.page_token,
            states=tuple(request.states),
            outcomes=tuple(request.outcomes),
            worker=request.worker,
            algo=request.algo,
            env_id=request.env_id,
            text=request.text,
            sort=sort,
            deleted=request.deleted,
        )
        await asyncio.to_thread(self.engine.registry.flush)
        page = await asyncio.to_thread(self.engine.registry.page, query)
        return pb.ListRunsReply(
            runs=[self._message(self.engine.fresh(stored)) for stored in page.runs],
            next_page_token=page.next_page_token,
            total=page.total,
        )

    async def WatchRuns(  # noqa: N802
        self, request: pb.WatchRunsRequest, _: Any
    ) -> AsyncIterator[pb.RunChange]:
        registry, changes = self.engine.registry, self.engine.journal.changes
        since = request.since if request.generation == registry.generation else 0
        start = registry.sequence
        subscription = changes.subscribe(start)

        def change(**fields: Any) -> pb.RunChange:
            return pb.RunChange(generation=registry.generation, **fields)

        try:
            await asyncio.to_thread(registry.flush)
            changed, removed = await asyncio.to_thread(registry.changes, since)
            for stored in changed:
                if stored.run.deleted:
                    yield change(sequence=stored.sequence, removed=stored.run.run_id)
                    continue
                message = self._message(self.engine.fresh(stored))
                yield change(sequence=stored.sequence, run=message)
            for run_id, sequence in removed if since else ():
                yield change(sequence=sequence, removed=run_id)
            yield change(sequence=start, snapshot_end=pb.SnapshotEnd())
            while True:
                news = await subscription.next()
                if isinstance(news, Missed):
                    gap = pb.Gap(to=news.to)
                    setattr(gap, "from", news.from_)
                    yield change(sequence=news.to, gap=gap)
                    continue
                sequence, item = news
                if item.run is None or item.run.deleted:
                    yield change(sequence=sequence, removed=item.run_id)
                else:
                    stored = StoredRun(item.run, item.vitals, sequence)
                    yield change(sequence=sequence, run=self._message(stored))
        finally:
            changes.unsubscribe(subscription)

    async def UpdateRun(self, request: pb.UpdateRunRequest, _: Any) -> pb.Run:  # noqa: N802
        change = AnnotateRequested(
            run_name=request.run_name[:200] if request.HasField("run_name") else None,
            notes=request.notes[:20_000] if request.HasField("notes") else None,
            tags=tuple(tag[:100] for tag in request.tags[:50]) if request.set_tags else None,
        )
        return await self._apply(request.run_id, change)

    async def CancelRun(self, request: pb.CancelRunRequest, _: Any) -> pb.Run:  # noqa: N802
        patient = self.engine.settings.grace_s
        grace = request.grace_s if request.HasField("grace_s") else patient
        grace = min(max(0.0, grace), _MAX_GRACE_S)
        return await self._apply(request.run_id, CancelRequested(grace))

    async def PauseRun(self, request: pb.PauseRunRequest, _: Any) -> pb.Run:  # noqa: N802
        return await self._apply(request.run_id, PauseRequested(request.release))

    async def ResumeRun(self, request: pb.ResumeRunRequest, _: Any) -> pb.Run:  # noqa: N802
        return await self._apply(request.run_id, ResumeRequested())

    async def CheckpointRun(self, request: pb.CheckpointRunRequest, _: Any) -> pb.Run:  # noqa: N802
        return await self._apply(request.run_id, CheckpointRequested())

    async def DeleteRun(self, request: pb.DeleteRunRequest, _: Any) -> pb.DeleteRunReply:  # noqa: N802
        stored = await resolve_run(self.engine, request.run_id)
        await self.engine.delete(stored.run.run_id, request.purge)
        return pb.DeleteRunReply()

    async def RestoreRun(self, request: pb.RestoreRunRequest, _: Any) -> pb.Run:  # noqa: N802
        return await self._apply(request.run_id, RestoreRequested())

    async def ListRunEvents(  # noqa: N802
        self, request: pb.ListRunEventsRequest, _: Any
    ) -> pb.ListRunEventsReply:
        stored = await resolve_run(self.engine, request.run_id)
        lines = await asyncio.to_thread(eventlog.read, self.engine.run_dir(stored).path)
        run, events = Run(stored.run.run_id), []
        for line in lines:
            run = evolve(run, history.from_line(stored.run.run_id, line))
            if line.seq > request.after:
                data = json.dumps(line.data)
                events.append(
                    pb.RunEvent(
                        seq=line.seq, at=line.at, kind=line.kind, state=run.state, data_json=data
                    )
                )
        return pb.ListRunEventsReply(events=events)

    # ------------------------------------------------------------ inside

    async def _apply(self, run_id: str, stimulus: Stimulus) -> pb.Run:
        stored = await resolve_run(self.engine, run_id)
        return self._message(self.engine.apply(stored.run.run_id, stimulus))

    def _message(self, stored: StoredRun) -> pb.Run:
        run_id = stored.run.run_id
        directory = str(self.engine.run_dir(stored).path)
        return run_message(stored, directory, self.engine.wait_reason(run_id))
