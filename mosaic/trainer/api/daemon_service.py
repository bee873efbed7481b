"""The gRPC handlers about the daemon itself: health, resources, workers, shutdown."""

import os
import time
from collections.abc import Callable

from grpc.aio import ServicerContext

from mosaic import __version__
from mosaic.connect import auth
from mosaic.trainer.launch import hardware
from mosaic.trainer.loop import slots
from mosaic.trainer.loop.engine import Engine
from mosaic.wire import trainer_pb2 as pb
from mosaic.workers.capabilities import PROTOCOL_VERSION

Shutdown = Callable[["pb.ShutdownRequest.Runs"], None]
# A challenge is 32 bytes; more is not a question but work for the HMAC.
_LONGEST_CHALLENGE = 64


class DaemonHandlers:
    """GetHealth, GetResources, ListWorkers and Shutdown."""

    def __init__(self, engine: Engine, token: bytes, instance: str, shutdown: Shutdown) -> None:
        self._engine = engine
        self._token = token
        self._instance = instance
        self._shutdown = shutdown
        self._started = time.monotonic()

    async def GetHealth(self, request: pb.GetHealthRequest, _: ServicerContext) -> pb.Health:
        return pb.Health(
            proof=auth.proof(self._token, request.challenge[:_LONGEST_CHALLENGE]),
            instance=self._instance,
            version=__version__,
            protocol=PROTOCOL_VERSION,
            epoch=self._engine.epoch,
            draining=self._engine.queue.draining,
            pid=os.getpid(),
            uptime_s=time.monotonic() - self._started,
            notice=self._engine.disk.notice,
        )

    async def GetResources(self, _: pb.GetResourcesRequest, __: ServicerContext) -> pb.Resources:
        machine = self._engine.machine()
        names = {f"gpu:{gpu.index}": gpu.name for gpu in self._engine.slots.gpus}
        queued, running = slots.count(self._engine.live.runs())
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
            disk_free_mb=hardware.disk_free_mb(self._engine.home.root),
            queued=queued,
            running=running,
            cpu_percent=hardware.cpu_percent(),
            memory_percent=hardware.memory_percent(),
        )

    async def ListWorkers(
        self, _: pb.ListWorkersRequest, __: ServicerContext
    ) -> pb.ListWorkersReply:
        await self._engine.submissions.find_new_workers()
        return pb.ListWorkersReply(
            workers=[
                pb.Worker(
                    type=worker.worker_type,
                    display_name=worker.display_name,
                    available=worker.capabilities is not None,
                    problem=worker.problem,
                    capabilities_json=worker.capabilities.to_json() if worker.capabilities else "",
                )
                for worker in self._engine.workers.values()
            ]
        )

    async def Shutdown(self, request: pb.ShutdownRequest, _: ServicerContext) -> pb.ShutdownReply:
        # Counted first: the order below may end them.
        live = [run for run in self._engine.live.runs() if not run.queued]
        self._shutdown(request.runs)
        return pb.ShutdownReply(live_runs=len(live))
