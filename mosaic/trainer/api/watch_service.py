"""The gRPC handler that pushes changes of runs to their watchers."""

import asyncio
from collections.abc import AsyncIterator

from grpc.aio import ServicerContext

from mosaic.trainer.api.resolve import RunMessages, resolve_run
from mosaic.trainer.loop.engine import Engine
from mosaic.trainer.storage.broadcast import Missed
from mosaic.trainer.storage.registry import StoredRun
from mosaic.wire import trainer_pb2 as pb


class WatchHandlers:
    """WatchRuns."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._messages = RunMessages(engine)

    async def WatchRuns(
        self, request: pb.WatchRunsRequest, _: ServicerContext
    ) -> AsyncIterator[pb.RunChange]:
        registry, changes = self._engine.registry, self._engine.journal.changes
        # Another generation: the registry was rebuilt, and its old numbers mean nothing now.
        since = request.since if request.generation == registry.generation else 0
        chosen = [await resolve_run(self._engine, run_id) for run_id in request.run_ids]
        wanted = {stored.run.run_id for stored in chosen}
        start = registry.sequence
        # Subscribed before the snapshot is read: a change in between is then sent twice, which
        # does no harm, instead of never.
        subscription = changes.subscribe(start)

        def change(
            sequence: int,
            *,
            run: pb.Run | None = None,
            removed: str | None = None,
            snapshot_end: pb.SnapshotEnd | None = None,
            gap: pb.Gap | None = None,
        ) -> pb.RunChange:
            return pb.RunChange(
                generation=registry.generation,
                sequence=sequence,
                run=run,
                removed=removed,
                snapshot_end=snapshot_end,
                gap=gap,
            )

        try:
            await asyncio.to_thread(registry.flush)
            removed: list[tuple[str, int]] = []
            if wanted:
                changed = [self._engine.live.stored(run_id) for run_id in wanted]
            else:
                changed, removed = await asyncio.to_thread(registry.changes, since)
            for stored in changed:
                if stored.run.deleted:
                    yield change(sequence=stored.sequence, removed=stored.run.run_id)
                    continue
                message = self._messages.of(self._engine.live.fresh(stored))
                yield change(sequence=stored.sequence, run=message)
            # A client that starts from nothing has nothing to remove.
            for run_id, sequence in removed if since else ():
                yield change(sequence=sequence, removed=run_id)
            # The number from before the snapshot: a client that comes back with it misses nothing.
            yield change(sequence=start, snapshot_end=pb.SnapshotEnd())
            while True:
                news = await subscription.next()
                if isinstance(news, Missed):
                    gap = pb.Gap(to=news.to)
                    setattr(gap, "from", news.from_)
                    yield change(sequence=news.to, gap=gap)
                    continue
                sequence, item = news
                if wanted and item.run_id not in wanted:
                    continue
                if item.run is None or item.run.deleted:
                    yield change(sequence=sequence, removed=item.run_id)
                else:
                    stored = StoredRun(item.run, item.vitals, sequence)
                    yield change(sequence=sequence, run=self._messages.of(stored))
        finally:
            changes.unsubscribe(subscription)
