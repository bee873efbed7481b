"""What keeps a page up to date: server-sent events, and frames as an endless picture."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

from mosaic.client import TrainerClient
from mosaic.errors import MosaicError
from mosaic.records import FrameRecord, LogChunk, MetricBatch, RunRecord
from mosaic.web.board import Board, News, Reader
from mosaic.web.charts import MOST_POINTS, points
from mosaic.web.relay import Connect, Relay

# A comment line that often keeps proxies from closing a stream without news, and it is when a
# closed tab is noticed: writing is what fails.
_PULSE_S = 10.0
# A browser that lost the stream tries again this much later.
_RETRY_MS = 2000
# As many lines as fit on a screen, with some to scroll back to.
_TAIL_LINES = 200
FRAME_BOUNDARY = "mosaic-frame"
# Smooth enough to follow an agent; each frame costs the run time.
_FRAMES_A_SECOND = 12
_FRAME_SIZE = 640

Fragment = Callable[[RunRecord], str]
RunNews = MetricBatch | LogChunk


@dataclass(frozen=True)
class Event:
    """One server-sent event."""

    name: str
    data: object

    def encode(self) -> bytes:
        """The event as it travels: JSON has no line ends, so it is one line of data."""
        return f"event: {self.name}\ndata: {json.dumps(self.data)}\n\n".encode()


async def run_list(board: Board, row: Fragment) -> AsyncIterator[bytes]:
    """The rows of runs that change, for the list of all runs."""
    yield f"retry: {_RETRY_MS}\n\n".encode()
    async for news in _board_news(board):
        if news is None:
            yield b": still here\n\n"
        elif event := _list_event(news, row):
            yield event.encode()


async def one_run(
    board: Board, connect: Connect, run_id: str, head: Fragment
) -> AsyncIterator[bytes]:
    """Everything the page of one run shows: its state, its curves and its output."""
    yield f"retry: {_RETRY_MS}\n\n".encode()
    queue: asyncio.Queue[Event | None] = asyncio.Queue(8)
    tasks = [
        asyncio.create_task(_states(board, run_id, head, queue)),
        asyncio.create_task(_content(connect, run_id, queue)),
    ]
    all_sent = False
    try:
        while True:
            run = board.runs.get(run_id)
            if all_sent and (run is None or run.ended):
                # The last word on its state, then the end: the browser must not ask again.
                if run is not None:
                    yield _state(run, head).encode()
                yield Event("end", {}).encode()
                return
            try:
                event = await asyncio.wait_for(queue.get(), _PULSE_S)
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if event is None:
                all_sent = True
            else:
                yield event.encode()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def frames(connect: Connect, run_id: str) -> AsyncIterator[bytes]:
    """Live frames as parts of one endless response, until the run ends or the tab closes."""

    def follow(client: TrainerClient) -> Iterator[FrameRecord]:
        return client.frames(run_id, max_fps=_FRAMES_A_SECOND, max_dim=_FRAME_SIZE)

    relay: Relay[FrameRecord] = Relay(connect, [follow])
    async for frame in relay.items():
        head = f"--{FRAME_BOUNDARY}\r\ncontent-type: image/jpeg\r\n"
        yield f"{head}content-length: {len(frame.jpeg)}\r\n\r\n".encode() + frame.jpeg + b"\r\n"


async def _board_news(board: Board) -> AsyncIterator[News | None]:
    """News of the board; None when there was none for a while."""
    reader = Reader(asyncio.get_running_loop())
    board.join(reader)
    try:
        yield News(problem=board.problem)
        while True:
            try:
                yield await asyncio.wait_for(reader.next(), _PULSE_S)
            except TimeoutError:
                yield None
    finally:
        board.leave(reader)


def _list_event(news: News, row: Fragment) -> Event | None:
    if news.lagging:
        return Event("reload", {})
    if news.removed:
        return Event("removed", {"id": news.removed})
    if news.run is not None:
        return Event("run", {"id": news.run.run_id, "html": row(news.run)})
    return Event("problem", {"text": news.problem})


async def _states(
    board: Board, run_id: str, head: Fragment, queue: asyncio.Queue[Event | None]
) -> None:
    async for news in _board_news(board):
        if news is None:
            continue
        if news.run is None and not news.removed and not news.lagging:
            await queue.put(Event("problem", {"text": news.problem}))
        if news.lagging or news.removed == run_id:
            await queue.put(Event("reload", {}))
        elif news.run is not None and news.run.run_id == run_id:
            await queue.put(_state(news.run, head))


def _state(run: RunRecord, head: Fragment) -> Event:
    return Event("run", {"html": head(run), "live": run.live})


async def _content(connect: Connect, run_id: str, queue: asyncio.Queue[Event | None]) -> None:
    relay: Relay[RunNews] = Relay(connect, [_curves_of(run_id), _log_of(run_id)])
    try:
        async for item in relay.items():
            if isinstance(item, MetricBatch):
                await queue.put(Event("points", points(item)))
            else:
                await queue.put(Event("log", {"stream": item.stream, "text": item.text}))
    except MosaicError as error:
        await queue.put(Event("problem", {"text": str(error).splitlines()[0]}))
        return
    await queue.put(None)


def _curves_of(run_id: str) -> Callable[[TrainerClient], Iterator[RunNews]]:
    return lambda client: client.metrics(run_id, follow=True, max_points=MOST_POINTS)


def _log_of(run_id: str) -> Callable[[TrainerClient], Iterator[RunNews]]:
    return lambda client: client.logs(run_id, follow=True, tail_lines=_TAIL_LINES)
