"""The gRPC handlers of agents: what they bring, what they fetch, their pictures."""

import asyncio
import os
from collections.abc import AsyncIterator

import grpc

from mosaic.errors import RunFileError
from mosaic.runs import opening
from mosaic.trainer.api.gate import caller_run_id
from mosaic.trainer.core.states import Run
from mosaic.trainer.loop.engine import Engine
from mosaic.trainer.sites.agents import AgentSite
from mosaic.wire import trainer_pb2 as pb

_CHUNK = 1 << 20


class AgentHandlers:
    """AgentTurn, AgentFetch and AgentFrames. The gate has checked whose agent calls."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def AgentTurn(
        self, request: pb.AgentTurnRequest, context: grpc.aio.ServicerContext
    ) -> pb.AgentTurnReply:
        run, site = self._run_of(context)
        if site is None or not site.admits(run, request.attempt, request.job):
            return pb.AgentTurnReply(over=True)
        before = site.contact(run.run_id).worker
        reply = await site.turn(run, request)
        if request.worker != before:
            # A start or an end is news that people wait for.
            self._engine.look_at(run.run_id)
        return reply

    async def AgentFetch(
        self, request: pb.AgentFetchRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.FileChunk]:
        run, site = self._run_of(context)
        if site is None or not site.needs(run, request.path):
            raise RunFileError(f"{request.path[:200]} is no file that this run needs")
        # Without following a link: a worker could have put one there that leads to a secret.
        run_id, _, place = request.path.partition("/")
        source = opening.open_regular(self._engine.home.run_dir(run_id), place)
        with os.fdopen(source, "rb") as handle:
            size, offset = os.fstat(handle.fileno()).st_size, 0
            while data := await asyncio.to_thread(handle.read, _CHUNK):
                yield pb.FileChunk(data=data, offset=offset, size=size)
                offset += len(data)

    async def AgentFrames(
        self, frames: AsyncIterator[pb.Frame], context: grpc.aio.ServicerContext
    ) -> pb.AgentFramesReply:
        run, _ = self._run_of(context)
        relay = self._engine.sites.of(run).relay(run)
        if relay is not None:
            async for frame in frames:
                if not relay.put(frame):
                    break  # no one watches: the run may stop rendering
        return pb.AgentFramesReply()

    def _run_of(self, context: grpc.aio.ServicerContext) -> tuple[Run, AgentSite | None]:
        """The caller's run, and its site if that is one with agents."""
        run = self._engine.live.stored(caller_run_id(context)).run
        site = self._engine.sites.of(run)
        return run, site if isinstance(site, AgentSite) else None
