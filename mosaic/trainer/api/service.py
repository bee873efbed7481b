"""The Trainer service: each call of the contract goes to the one handler that knows it."""

from collections.abc import Sequence

import grpc

from mosaic.trainer.api.agent_service import AgentHandlers
from mosaic.trainer.api.archive_service import ArchiveHandlers
from mosaic.trainer.api.daemon_service import DaemonHandlers, Shutdown
from mosaic.trainer.api.file_service import FileHandlers
from mosaic.trainer.api.observation_service import FrameHandlers, TelemetryLane
from mosaic.trainer.api.run_service import RunHandlers
from mosaic.trainer.api.streams import StreamHandlers
from mosaic.trainer.api.watch_service import WatchHandlers
from mosaic.trainer.api.worker_service import WorkerHandlers
from mosaic.trainer.loop.engine import Engine
from mosaic.wire import trainer_pb2 as pb
from mosaic.wire import trainer_pb2_grpc


class TrainerService:
    """The handlers of a daemon, put together.

    Attributes:
        telemetry: The lane of steps and episodes, which outlives a single call.
    """

    def __init__(self, engine: Engine, token: bytes, instance: str, shutdown: Shutdown) -> None:
        self.telemetry = TelemetryLane(engine)
        self._handlers: Sequence[object] = (
            DaemonHandlers(engine, token, instance, shutdown),
            RunHandlers(engine),
            WatchHandlers(engine),
            FileHandlers(engine),
            StreamHandlers(engine),
            ArchiveHandlers(engine, token),
            WorkerHandlers(engine, token),
            AgentHandlers(engine),
            FrameHandlers(engine),
            self.telemetry.calls,
        )

    def register(self, server: grpc.aio.Server) -> None:
        """Answer every call of the contract on a server."""
        servicer = trainer_pb2_grpc.TrainerServicer()
        for method in pb.DESCRIPTOR.services_by_name["Trainer"].methods:
            # Exactly one: a call without a handler, or with two, is found at the first start and
            # not by the first user who makes it.
            (handler,) = (item for item in self._handlers if hasattr(item, method.name))
            setattr(servicer, method.name, getattr(handler, method.name))
        trainer_pb2_grpc.add_TrainerServicer_to_server(servicer, server)
