"""The telemetry calls of the Trainer service."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Protocol

import grpc
from google.protobuf.message import Message

from mosaic.connect.failures import abort
from mosaic.errors import RunNotFoundError, StoreDamagedError, StoreVersionError
from mosaic.telemetry.hub import TelemetryHub
from mosaic.telemetry.lane import Session
from mosaic.telemetry.records import Batch, Kind, records_of
from mosaic.wire import trainer_pb2 as pb


class Context(Protocol):
    """The part of a grpc.aio servicer context that is used here."""

    async def abort(self, code: grpc.StatusCode, details: str = ...) -> None: ...
    async def write(self, message: Message) -> None: ...


Request = pb.StreamRunStepsRequest | pb.StreamRunEpisodesRequest
Authorise = Callable[[Context, str, bool], Awaitable[None]]


class TelemetryService:
    """PublishRunSteps, PublishRunEpisodes, StreamRunSteps and StreamRunEpisodes.

    Args:
        hub: The daemon's telemetry hub.
        run_dir_of: Gives a run's directory, or raises `KeyError` for a run that is not known.
        authorise: Awaited with (context, run id, publishing); aborts the call when the caller's
            token does not open that run.
    """

    def __init__(
        self, hub: TelemetryHub, run_dir_of: Callable[[str], Path], authorise: Authorise
    ) -> None:
        self._hub = hub
        self._run_dir_of = run_dir_of
        self._authorise = authorise

    async def PublishRunSteps(
        self, request_iterator: AsyncIterator[pb.StepBatch], context: Context
    ) -> None:
        """Records of steps in, credits out."""
        await self._publish(Kind.STEPS, request_iterator, context)

    async def PublishRunEpisodes(
        self, request_iterator: AsyncIterator[pb.EpisodeBatch], context: Context
    ) -> None:
        """Records of episodes in, credits out."""
        await self._publish(Kind.EPISODES, request_iterator, context)

    async def StreamRunSteps(
        self, request: pb.StreamRunStepsRequest, context: Context
    ) -> AsyncIterator[Batch]:
        """Stored steps, then live ones."""
        episode = request.episode if request.HasField("episode") else None
        async for batch in self._stream(Kind.STEPS, request, context, episode):
            yield batch

    async def StreamRunEpisodes(
        self, request: pb.StreamRunEpisodesRequest, context: Context
    ) -> AsyncIterator[Batch]:
        """Stored episodes, then live ones."""
        async for batch in self._stream(Kind.EPISODES, request, context, None):
            yield batch

    async def _publish(self, kind: Kind, requests: AsyncIterator[Batch], context: Context) -> None:
        opening = await anext(aiter(requests), None)
        if opening is None:
            return
        run_dir = await self._enter(context, opening.run_id, publishing=True)
        try:
            session = await self._hub.publish(opening.run_id, kind, run_dir)
        except StoreVersionError as error:
            await abort(context, error)
        # Two tasks, because both ends speak when they have something to say.
        sender = asyncio.create_task(_send_credits(session, context))
        reader = asyncio.create_task(_take(session, opening, requests))
        try:
            await asyncio.wait({sender, reader}, return_when=asyncio.FIRST_COMPLETED)
            if session.superseded:
                await context.abort(
                    grpc.StatusCode.ABORTED, "another stream of this run took over, or it ended"
                )
        finally:
            for task in (sender, reader):
                task.cancel()
            # Ended for certain before the session closes: a reader could still offer a batch to it.
            await asyncio.gather(sender, reader, return_exceptions=True)
            await session.close()

    async def _stream(
        self, kind: Kind, request: Request, context: Context, episode: int | None
    ) -> AsyncIterator[Batch]:
        run_dir = await self._enter(context, request.run_id, publishing=False)
        batches = self._hub.read(
            request.run_id, kind, run_dir, request.after, request.follow, episode
        )
        async with aclosing(batches):
            try:
                async for batch in batches:
                    yield batch
            except (StoreDamagedError, StoreVersionError) as error:
                await abort(context, error)

    async def _enter(self, context: Context, run_id: str, publishing: bool) -> Path:
        await self._authorise(context, run_id, publishing)
        try:
            return self._run_dir_of(run_id)
        except KeyError:
            text = f"there is no run {run_id[:40]!r}: see `mosaic runs`"
            await abort(context, RunNotFoundError(text))


async def _take(session: Session, opening: Batch, requests: AsyncIterator[Batch]) -> None:
    if records_of(opening):
        await session.offer(opening)
    async for batch in requests:
        await session.offer(batch)


async def _send_credits(session: Session, context: Context) -> None:
    async for credit in session.credits():
        await context.write(credit)
