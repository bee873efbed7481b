"""The daemon's telemetry hub: records come in from workers, go to the store and to live viewers.

Everything runs on one event loop and nothing here waits for a viewer: a publisher's records pass
the sieve, join the live ring and the store's queue, and credit flows back as batches become safe.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from pathlib import Path

from mosaic.config.json_types import JsonValue
from mosaic.errors import SpoolBusyError
from mosaic.telemetry.frame_cache import FrameCache
from mosaic.telemetry.lane import Lane, Session
from mosaic.telemetry.records import Batch, Kind, Record, make_batch, records_of
from mosaic.telemetry.ring import VIEW_RECORDS
from mosaic.telemetry.schema import store_path
from mosaic.telemetry.spool import Spool, spool_path
from mosaic.telemetry.store import Committed, StoreReader, StoreWriter
from mosaic.wire import trainer_pb2 as pb

# Half of the time after which a stream counts as starved.
TICK_S = 0.5

Notice = Callable[[str, str, Mapping[str, JsonValue]], None]


class RunChannel:
    """One run's two lanes and its store, open while anyone uses them."""

    def __init__(self, run_id: str, run_dir: Path, notify: Notice) -> None:
        self.run_id = run_id
        self.run_dir = run_dir
        self.users = 0
        self._notify = notify
        self._loop = asyncio.get_running_loop()
        self._writer: StoreWriter | None = None
        self._reader: StoreReader | None = None
        self.frames = FrameCache()
        self.lanes = {kind: Lane(run_id, kind) for kind in Kind}
        self._opened = asyncio.Lock()

    async def open_for_reading(self) -> StoreReader | None:
        """The store as a reader; `None` when the run has recorded nothing yet."""
        async with self._opened:
            if self._reader is None and store_path(self.run_dir).exists():
                self._reader = await asyncio.to_thread(StoreReader, self.run_dir)
                await self._recall()
            return self._reader

    async def open_for_writing(self) -> StoreWriter:
        """The store as its one writer."""
        async with self._opened:
            if self._writer is None:
                self._writer = await asyncio.to_thread(
                    StoreWriter, self.run_dir, self._commit_from_thread
                )
                if self._writer.notice:
                    self.notify("telemetry_recovered", {"message": self._writer.notice})
        await self.open_for_reading()
        return self._writer

    async def _recall(self) -> None:
        assert self._reader is not None
        for kind, lane in self.lanes.items():
            lane.recall(await asyncio.to_thread(self._reader.last_seq, kind))

    def notify(self, event: str, data: Mapping[str, JsonValue]) -> None:
        """Tell the event log."""
        self._notify(self.run_id, event, data)

    def notify_quarantine(self, lane: Lane) -> None:
        """Tell the event log the first time that records are set aside for a reason."""
        if lane.new_reasons:
            lane.new_reasons = False
            self.notify("telemetry_quarantined", {"stream": lane.kind.value, **lane.stats()})

    async def adopt_spool(self) -> int:
        """Store what a worker that is gone could not deliver; how many records that were."""
        adopted = 0
        for kind, lane in self.lanes.items():
            if not spool_path(self.run_dir, kind).exists() or lane.session is not None:
                continue
            try:
                spool = await asyncio.to_thread(Spool, self.run_dir, kind)
            except SpoolBusyError:
                # Its worker lives and will deliver it.
                continue
            try:
                adopted += await self._deliver(spool, lane)
            finally:
                await asyncio.to_thread(spool.close)
        if adopted:
            self.notify("telemetry_spool_delivered", {"records": adopted})
        return adopted

    async def _deliver(self, spool: Spool, lane: Lane) -> int:
        writer = await self.open_for_writing()
        delivered = 0
        while records := await asyncio.to_thread(spool.take, VIEW_RECORDS):
            lane.accept(make_batch(lane.kind, self.run_id, records), writer)
            delivered += len(records)
            await asyncio.to_thread(writer.flush)
        # Only after all of it is in the store: a crash before this line delivers some records
        # twice, which the sieve recognises.
        await asyncio.to_thread(spool.clear)
        return delivered

    async def settled(self, timeout: float = 5.0) -> None:
        """Wait until everything accepted so far can be read from the store."""
        if self._writer is not None:
            await asyncio.to_thread(self._writer.flush, timeout)

    def frame(self, name: str) -> bytes:
        """A frame by name, from the cache or the store; empty when it is not there."""
        found = self.frames.get(name)
        if not found and self._reader is not None:
            found = self._reader.frame(name)
            self.frames.keep(name, found)
        return found

    def see(self, batch: Batch) -> None:
        """Keep new frames at hand for the records that refer to them."""
        if isinstance(batch, pb.StepBatch):
            for step in batch.steps:
                if step.frame and step.frame_ref:
                    self.frames.keep(step.frame_ref, step.frame)

    @property
    def trouble(self) -> str:
        """What keeps the store from writing, if anything does."""
        return self._writer.trouble if self._writer else ""

    async def close(self) -> None:
        """Write what is left and close the files."""
        writer, self._writer = self._writer, None
        reader, self._reader = self._reader, None
        for lane in self.lanes.values():
            self.notify_quarantine(lane)
        # The reader first: the last connection to close folds the log into the file, which one that
        # may only read cannot do.
        if reader is not None:
            await asyncio.to_thread(reader.close)
        if writer is not None:
            await asyncio.to_thread(writer.close)

    def _commit_from_thread(self, commits: list[Committed]) -> None:
        self._loop.call_soon_threadsafe(self._committed, commits)

    def _committed(self, commits: list[Committed]) -> None:
        for commit in commits:
            self.lanes[commit.kind].committed(commit)


class TelemetryHub:
    """All runs' telemetry inside the daemon.

    Args:
        notify: Called with (run id, event name, data) for the run's event log:
            `telemetry_starved`, `telemetry_resumed`, `telemetry_recovered`,
            `telemetry_spool_delivered`, `telemetry_quarantined`.
        is_live: Whether a run can still record; following one that cannot ends by itself.
    """

    def __init__(self, notify: Notice, is_live: Callable[[str], bool] = lambda _: True) -> None:
        self._notify = notify
        self._is_live = is_live
        self._channels: dict[str, RunChannel] = {}
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._ticker: asyncio.Task[None] | None = None

    async def publish(self, run_id: str, kind: Kind, run_dir: Path) -> Session:
        """Open a worker's stream; an older stream of the same kind is ended."""
        channel = await self._enter(run_id, run_dir)
        try:
            lane = channel.lanes[kind]
            if lane.session is not None:
                # A worker that reconnects after a broken line: its old stream still seems open.
                lane.session.supersede()
                await channel.settled()
            # Older records first: what was spooled has smaller numbers than what comes now.
            await channel.adopt_spool()
            writer = await channel.open_for_writing()
            # The first credit tells the worker what is safe, so everything must be stored by then.
            await channel.settled()
        except BaseException:
            await self._leave(channel)
            raise
        if self._ticker is None:
            self._ticker = asyncio.create_task(self._tick())

        async def leave() -> None:
            await self._leave(channel)

        session = Session(lane, writer, channel.see, leave)
        lane.session = session
        return session

    async def read(
        self,
        run_id: str,
        kind: Kind,
        run_dir: Path,
        after: int = 0,
        follow: bool = False,
        episode: int | None = None,
    ) -> AsyncGenerator[Batch, None]:
        """Records past `after` from the store, then, with `follow`, live ones.

        A live viewer that falls behind gets a batch with a gap and continues from there; asking
        again with `after = gap.from - 1` gives what it missed.
        """
        channel = await self._enter(run_id, run_dir)
        try:
            await channel.adopt_spool()
            lane = channel.lanes[kind]
            cursor = after
            async for batch in self._history(channel, kind, after, episode):
                cursor = records_of(batch)[-1].seq
                yield batch
            if not follow:
                return
            if episode is not None:
                # The history was filtered; without this the other episodes would come once more.
                cursor = max(cursor, lane.committed_seq)
            if not self._is_live(run_id):
                lane.end()
            async for batch in _live(lane, cursor):
                wanted = _only_episode(batch, kind, run_id, episode)
                if wanted is not None:
                    yield await _with_frames(channel, wanted)
        finally:
            await self._leave(channel)

    async def end_run(self, run_id: str) -> None:
        """The run is over: followers get the rest and their streams end."""
        channel = self._channels.get(run_id)
        if channel is not None:
            for lane in channel.lanes.values():
                lane.end()

    async def close(self) -> None:
        """End every stream and write everything that was accepted."""
        if self._ticker is not None:
            self._ticker.cancel()
        for channel in list(self._channels.values()):
            for lane in channel.lanes.values():
                lane.end()
            await channel.close()
        self._channels.clear()
        await asyncio.gather(*self._closing.values(), return_exceptions=True)

    async def _history(
        self, channel: RunChannel, kind: Kind, after: int, episode: int | None
    ) -> AsyncIterator[Batch]:
        await channel.settled()
        reader = await channel.open_for_reading()
        if reader is None:
            return
        cursor = after
        while records := await asyncio.to_thread(reader.read, kind, cursor, VIEW_RECORDS, episode):
            cursor = records[-1].seq
            yield await _with_frames(channel, make_batch(kind, channel.run_id, records))

    async def _enter(self, run_id: str, run_dir: Path) -> RunChannel:
        # A store has one writer. Shielded: a caller that gives up must not stop the closing.
        closing = self._closing.get(run_id)
        if closing is not None:
            await asyncio.shield(closing)
        channel = self._channels.get(run_id)
        if channel is None:
            channel = self._channels[run_id] = RunChannel(run_id, run_dir, self._notify)
        channel.users += 1
        return channel

    async def _leave(self, channel: RunChannel) -> None:
        channel.users -= 1
        if channel.users > 0 or self._channels.get(channel.run_id) is not channel:
            return
        # Out of the table before the first await: a caller that comes now waits for the closing
        # and opens a channel of its own.
        del self._channels[channel.run_id]
        task = asyncio.create_task(channel.close())
        self._closing[channel.run_id] = task
        task.add_done_callback(lambda _: self._closing.pop(channel.run_id, None))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            for channel in list(self._channels.values()):
                for kind, lane in channel.lanes.items():
                    turn = lane.tick(time.monotonic())
                    if turn is not None:
                        why = channel.trouble or "the store is behind"
                        data = {"stream": kind.value, "why": why, **lane.stats()}
                        channel.notify(turn.value, data)
                    channel.notify_quarantine(lane)


async def _live(lane: Lane, cursor: int) -> AsyncIterator[Batch]:
    while True:
        if lane.ring.oldest > cursor + 1 and lane.ring.newest > cursor:
            first, last = cursor + 1, lane.ring.oldest - 1
            cursor = last
            notice = make_batch(lane.kind, lane.run_id, [])
            # Said before the records after it: a viewer must know that something is missing between
            # them.
            notice.gap.CopyFrom(pb.Gap(**{"from": first, "to": last}))
            yield notice
            continue
        batches = lane.ring.after(cursor)
        if batches:
            batch = _joined(lane, batches, cursor)
            cursor = records_of(batch)[-1].seq
            yield batch
        elif lane.ended:
            return
        else:
            await lane.changed()


def _joined(lane: Lane, batches: list[Batch], cursor: int) -> Batch:
    first = records_of(batches[0])
    if len(batches) == 1 and first[0].seq > cursor:
        return batches[0]
    records: list[Record] = [r for batch in batches for r in records_of(batch) if r.seq > cursor]
    return make_batch(lane.kind, lane.run_id, records)


def _only_episode(batch: Batch, kind: Kind, run_id: str, episode: int | None) -> Batch | None:
    if episode is None or batch.HasField("gap"):
        return batch
    records = [r for r in records_of(batch) if r.episode == episode]
    return make_batch(kind, run_id, records) if records else None


async def _with_frames(channel: RunChannel, batch: Batch) -> Batch:
    if not isinstance(batch, pb.StepBatch) or all(s.frame or not s.frame_ref for s in batch.steps):
        return batch
    return await asyncio.to_thread(_fill_frames, channel, batch)


def _fill_frames(channel: RunChannel, batch: pb.StepBatch) -> pb.StepBatch:
    filled = pb.StepBatch()
    filled.CopyFrom(batch)
    for step in filled.steps:
        if step.frame_ref and not step.frame:
            step.frame = channel.frame(step.frame_ref)
    return filled
