"""The gRPC handlers of the two live lanes: telemetry records and FastLane frames."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
from grpc.aio import ServicerContext

from mosaic.config.json_types import JsonValue
from mosaic.errors import InvalidTransitionError, RunNotFoundError, StorageError
from mosaic.telemetry.hub import TelemetryHub
from mosaic.telemetry.service import TelemetryService
from mosaic.trainer.api.gate import caller_run_id
from mosaic.trainer.api.resolve import resolve_run
from mosaic.trainer.core.stimuli import WorkerSaid
from mosaic.trainer.loop.engine import Engine
from mosaic.trainer.sites.relay import FrameRelay, Wish
from mosaic.trainer.storage.broadcast import Missed
from mosaic.wire import trainer_pb2 as pb

# Frames are encoded here, so what a client may ask for is limited by what the daemon can spare.
_FASTEST, _BEST_QUALITY = 60.0, 95
_USUAL_FPS, _USUAL_QUALITY = 30.0, 80
# How soon a viewer of another machine's run learns that it has ended.
_LOOK_UP_S = 0.5

log = logging.getLogger(__name__)


class TelemetryLane:
    """The hub of steps and episodes, joined to the engine.

    Attributes:
        calls: The handlers of PublishRunSteps, PublishRunEpisodes, StreamRunSteps and
            StreamRunEpisodes.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._hub = TelemetryHub(self._note, self._is_live)
        self.calls = TelemetryService(self._hub, self._directory_of, self._authorise)

    async def follow_endings(self) -> None:
        """Tell the hub about every run that ends; runs until it is cancelled."""
        changes = self._engine.journal.changes
        subscription = changes.subscribe(self._engine.registry.sequence)
        try:
            while True:
                news = await subscription.next()
                if isinstance(news, Missed):
                    continue
                _, change = news
                if change.run is None or not change.run.live:
                    await self._hub.end_run(change.run_id)
        finally:
            changes.unsubscribe(subscription)

    async def close(self) -> None:
        """Store what is still in memory."""
        await self._hub.close()

    def _is_live(self, run_id: str) -> bool:
        return _is_live(self._engine, run_id)

    def _note(self, run_id: str, event: str, data: Mapping[str, JsonValue]) -> None:
        """What the hub wants remembered becomes an event of the run."""
        try:
            self._engine.apply(run_id, WorkerSaid(event, data))
        # The hub writes in the background: the run may have been deleted since.
        except (RunNotFoundError, InvalidTransitionError, StorageError):
            return

    def _directory_of(self, run_id: str) -> Path:
        try:
            return self._engine.live.run_dir(self._engine.live.stored(run_id)).path
        except RunNotFoundError:
            raise KeyError(run_id) from None

    async def _authorise(self, context: ServicerContext, run_id: str, publishing: bool) -> None:
        """A worker publishes for its own run only; the gate has checked who calls."""
        if publishing and run_id != caller_run_id(context):
            text = f"this worker may not publish for run {run_id[:40]}"
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, text)


class FrameHandlers:
    """StreamFrames."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def StreamFrames(
        self, request: pb.StreamFramesRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.Frame]:
        """The frames of a run as JPEG, the newest first when the viewer is slow."""
        stored = await resolve_run(self._engine, request.run_id)
        relay = self._engine.sites.of(stored.run).relay(stored.run)
        if relay is not None:
            async for picture in self._relayed(relay, stored.run.run_id, _wish(request)):
                yield picture
            return
        run_id, run_dir = stored.run.run_id, self._engine.live.run_dir(stored).path
        # Short: the reading thread waits for room here and then reads the newest frame, so a slow
        # viewer skips frames instead of falling behind.
        frames: asyncio.Queue[pb.Frame | None] = asyncio.Queue(maxsize=2)
        loop, over = asyncio.get_running_loop(), threading.Event()

        def gone() -> bool:
            return over.is_set() or not _is_live(self._engine, run_id)

        def read() -> None:
            try:
                for frame in _messages(run_id, run_dir, _wish(request), gone):
                    asyncio.run_coroutine_threadsafe(frames.put(frame), loop).result()
            finally:
                # Also when the frames cannot be read: the viewer would wait for ever.
                asyncio.run_coroutine_threadsafe(frames.put(None), loop).result()

        # A thread of its own for as long as it watches. The pool has only a few threads, which
        # every call needs for a moment: six viewers would have kept all others waiting.
        own = ThreadPoolExecutor(max_workers=1, thread_name_prefix="frames")
        reading = loop.run_in_executor(own, read)
        own.shutdown(wait=False)
        try:
            while (frame := await frames.get()) is not None:
                yield frame
        finally:
            over.set()
            # The thread may be waiting for room: make room until it has noticed.
            while not reading.done():
                while not frames.empty():
                    frames.get_nowait()
                await asyncio.sleep(0.01)
            if not reading.cancelled() and reading.exception() is not None:
                log.error("frames of run %s cannot be read: %s", run_id, reading.exception())

    async def _relayed(self, relay: FrameRelay, run_id: str, wish: Wish) -> AsyncIterator[pb.Frame]:
        """The same from another machine, which sends them while someone watches."""
        if not _is_live(self._engine, run_id):
            return
        async for frame in relay.watch(wish, _LOOK_UP_S):
            if not _is_live(self._engine, run_id):
                return
            if frame is not None:
                yield frame


def _is_live(engine: Engine, run_id: str) -> bool:
    try:
        return engine.live.stored(run_id).run.live
    except (RunNotFoundError, StorageError):
        return False


def _wish(request: pb.StreamFramesRequest) -> Wish:
    return Wish(
        min(request.max_fps or _USUAL_FPS, _FASTEST),
        request.max_dim,
        min(request.jpeg_quality or _USUAL_QUALITY, _BEST_QUALITY),
    )


def _messages(
    run_id: str, run_dir: Path, wish: Wish, gone: Callable[[], bool]
) -> Iterator[pb.Frame]:
    """Runs on a thread: NumPy and Pillow are loaded when a client watches, not before."""
    from mosaic.fastlane.messages import frame_messages

    return frame_messages(
        run_id,
        run_dir,
        max_fps=wish.max_fps,
        max_dim=wish.max_dim,
        quality=wish.quality,
        stop=gone,
    )
