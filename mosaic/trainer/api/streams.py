"""Handlers that stream what a run leaves behind: logs and metrics."""

import asyncio
import importlib
import time
from collections.abc import AsyncIterator

import grpc

from mosaic.runs import logs
from mosaic.runs.log_filter import LineFilter
from mosaic.trainer.api.resolve import resolve_run
from mosaic.trainer.loop.engine import Engine
from mosaic.trainer.storage.registry import StoredRun
from mosaic.wire import trainer_pb2 as pb
from mosaic.workers.lifecycle import MARK

# As often as the loop reads logs: following can be no fresher than the daemon itself.
_FOLLOW_S = 0.25
# Some 400 kB, a tenth of what a message may hold.
_METRIC_CHUNK = 20_000
_PROGRESS_S = 0.2
_SMALLEST_CHUNK = 4096


class StreamHandlers:
    """StreamRunLogs and StreamRunMetrics."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def StreamRunLogs(
        self, request: pb.StreamRunLogsRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.LogChunk]:
        stored = await resolve_run(self._engine, request.run_id)
        hidden = "" if request.lifecycle else MARK.decode()
        wanted = LineFilter(request.grep, hidden)
        directory = self._engine.live.run_dir(stored)
        paths = {"stdout": directory.stdout, "stderr": directory.stderr}
        names = [request.stream] if request.stream in paths else list(paths)
        # An offset is a place in one file; it means nothing if both are read.
        single = len(names) == 1
        offsets = dict.fromkeys(names, request.offset if single else 0)
        if request.tail_lines:
            for name in names:
                offsets[name] = await asyncio.to_thread(
                    logs.tail_offset, paths[name], request.tail_lines, hidden.encode()
                )
        turn = min(max(request.chunk_bytes or logs.MEGABYTE, _SMALLEST_CHUNK), logs.MEGABYTE)
        said_at = time.monotonic()
        while True:
            # Asked before the read: what was written until the end is then in this last read.
            over = not self._still_live(stored)
            moved = False
            for name in names:
                block = await asyncio.to_thread(
                    logs.read_lines, paths[name], offsets[name], over, wanted, turn
                )
                moved = moved or block.offset != offsets[name]
                offsets[name] = block.offset
                silent = request.progress and time.monotonic() - said_at > _PROGRESS_S
                if block.lines or (silent and moved):
                    said_at = time.monotonic()
                    yield _chunk(name, block)
            if not moved:
                if over or not request.follow:
                    return
                await asyncio.sleep(_FOLLOW_S)

    async def StreamRunMetrics(
        self, request: pb.StreamRunMetricsRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.MetricBatch]:
        stored = await resolve_run(self._engine, request.run_id)
        # Not at the top: NumPy is a tenth of a second that the daemon's start can do without.
        metrics = await asyncio.to_thread(importlib.import_module, "mosaic.runs.metrics")
        reader = metrics.MetricReader(self._engine.live.run_dir(stored).path)
        read: dict[str, int] = {}
        while True:
            # Before the read, as for logs.
            over = not self._still_live(stored)
            for tag in list(request.tags) or await asyncio.to_thread(reader.tags):
                start = read.get(tag, 0)
                # Only the stored part can be long. What is added while following is sent whole.
                limit = request.max_points if start == 0 else 0
                count, shown = await asyncio.to_thread(reader.read_counted, tag, start, limit)
                if not count:
                    continue
                read[tag] = start + count
                for first in range(0, len(shown), _METRIC_CHUNK):
                    part = shown[first : first + _METRIC_CHUNK]
                    yield pb.MetricBatch(
                        tag=tag,
                        steps=part["step"].tolist(),
                        values=part["value"].tolist(),
                        wall_times=part["wall"].tolist(),
                        total_points=read[tag],
                    )
            if over or not request.follow:
                return
            await asyncio.sleep(_FOLLOW_S * 2)

    def _still_live(self, stored: StoredRun) -> bool:
        return self._engine.live.stored(stored.run.run_id).run.live


def _chunk(stream: str, block: logs.Lines) -> pb.LogChunk:
    text = "\n".join(block.lines) + "\n" if block.lines else ""
    return pb.LogChunk(
        stream=stream, offset=block.offset, text=text, first=block.first, size=block.size
    )
