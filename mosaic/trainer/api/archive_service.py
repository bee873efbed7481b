"""The gRPC handlers of archives."""

from collections.abc import AsyncIterator
from functools import cached_property
from typing import TYPE_CHECKING

from grpc.aio import ServicerContext

from mosaic.trainer.loop.engine import Engine
from mosaic.wire import trainer_pb2 as pb

if TYPE_CHECKING:
    from mosaic.trainer.api.archives import Archives


class ArchiveHandlers:
    """ExportRuns and ImportRuns."""

    def __init__(self, engine: Engine, token: bytes) -> None:
        self._engine = engine
        self._token = token

    async def ExportRuns(
        self, request: pb.ExportRunsRequest, _: ServicerContext
    ) -> AsyncIterator[pb.ArchiveChunk]:
        async for chunk in self._archives.send(request):
            yield chunk

    async def ImportRuns(
        self, requests: AsyncIterator[pb.ImportChunk], _: ServicerContext
    ) -> pb.ImportRunsReply:
        return await self._archives.receive(requests)

    @cached_property
    def _archives(self) -> "Archives":
        # With the first call: most daemons never see one, and the manifest needs pydantic, which
        # was a quarter of every start.
        from mosaic.trainer.api.archives import Archives

        return Archives(self._engine, self._token)
