"""Archives: runs out of this home as one file, and into it."""

import asyncio
import concurrent.futures
import json
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from mosaic.archive import manifest as manifests
from mosaic.archive.content import Cleaner
from mosaic.archive.manifest import ArchivedRun, Manifest
from mosaic.archive.pack import Source, pack, survey
from mosaic.archive.receiving import Announced, receive
from mosaic.archive.unpack import rename_run, sync
from mosaic.config.secrets import SecretStore
from mosaic.connect import auth
from mosaic.errors import ArchiveError, InvalidArgumentError, RunExistsError
from mosaic.runs.directory import remove_tree
from mosaic.runs.ids import new_run_id
from mosaic.system import atomic
from mosaic.trainer.api.messages import run_message
from mosaic.trainer.api.resolve import resolve_run
from mosaic.trainer.core.states import Run
from mosaic.trainer.launch import hardware
from mosaic.trainer.loop import housekeeping, imports, intake
from mosaic.trainer.loop.engine import Engine
from mosaic.trainer.storage.registry import StoredRun, Vitals
from mosaic.wire import trainer_pb2 as pb

# A gRPC message holds 4 MiB, and one row has to leave room for the others of its page.
_LARGEST_ROW = 2**20


@dataclass(frozen=True)
class Arrival:
    """A run of an archive and what becomes of it here; no `place` when it is here already."""

    announced: Announced
    run_id: str
    place: Path | None


class Archives:
    """Packs runs of a home, and admits those of an archive."""

    def __init__(self, engine: Engine, token: bytes) -> None:
        self._engine = engine
        self._token = token

    async def send(self, request: pb.ExportRunsRequest) -> AsyncIterator[pb.ArchiveChunk]:
        """A manifest, then the archive it describes."""
        stored = [await resolve_run(self._engine, text) for text in request.run_ids]
        # A run may be named twice, by its id and by a prefix.
        once = {item.run.run_id: item for item in stored}
        sources = [self._source(item) for item in once.values()]
        if not sources:
            raise ArchiveError("name at least one run to export")
        manifest = await asyncio.to_thread(_describe, sources, not request.without_checkpoints)
        yield pb.ArchiveChunk(manifest_json=json.dumps(manifest.model_dump()))
        pieces = pack(manifest, sources)
        while piece := await asyncio.to_thread(next, pieces, b""):
            yield pb.ArchiveChunk(data=piece)

    async def receive(self, requests: AsyncIterator[pb.ImportChunk]) -> pb.ImportRunsReply:
        """Everything is received and proven out of sight; then the runs appear."""
        first = await anext(requests, pb.ImportChunk())
        if first.WhichOneof("part") != "options":
            raise InvalidArgumentError("the options come first")
        loop = asyncio.get_running_loop()
        upload = _Upload(requests, loop)
        # A thread of its own: a client that sends nothing must not occupy one of the shared pool.
        thread = concurrent.futures.ThreadPoolExecutor(1, "import")
        receiving = loop.run_in_executor(thread, self._receive, upload, first.options)
        # Shielded, because a thread cannot be cancelled: it has to notice that the client
        # is gone and clear its folders before this call may end.
        try:
            arrived = await asyncio.shield(receiving)
        except asyncio.CancelledError:
            upload.give_up()
            await asyncio.wait([receiving])
            receiving.exception()  # fetched, or asyncio would log it as forgotten
            raise
        finally:
            thread.shutdown(wait=False)
        try:
            imported = [self._admit(arrival, run, vitals) for arrival, run, vitals in arrived]
        except BaseException:
            # Those that were admitted before the failure have left their place, and stay.
            _discard([arrival for arrival, _, _ in arrived])
            raise
        return pb.ImportRunsReply(runs=imported)

    # ------------------------------------------------------------ out

    def _source(self, stored: StoredRun) -> Source:
        run = stored.run
        if run.live:
            raise ArchiveError(
                f"run {run.run_id} is {run.state} and its files still change: wait for its end "
                f"(mosaic watch {run.run_id}) or end it (mosaic cancel {run.run_id}), then export"
            )
        if run.deleted:
            raise ArchiveError(
                f"run {run.run_id} is in the trash; take it out first: mosaic restore {run.run_id}"
            )
        described = ArchivedRun(
            run_id=run.run_id,
            run_name=run.run_name,
            worker=run.worker,
            algo=run.algo,
            env_id=run.env_id,
            outcome=run.outcome,
            files=[],
        )
        return Source(self._engine.live.run_dir(stored).path, described, self._cleaner(run.run_id))

    def _cleaner(self, run_id: str) -> Cleaner:
        kept = SecretStore(self._engine.home.secrets).get(run_id)
        return Cleaner([*kept.values(), self._token.decode(), auth.launch_key(self._token, run_id)])

    # ------------------------------------------------------------ in

    def _receive(
        self, upload: "_Upload", options: pb.ImportOptions
    ) -> list[tuple[Arrival, Run, Vitals]]:
        """Unpack and check an archive; a failure leaves nothing."""
        home, settings = self._engine.home, self._engine.settings
        # The reserve is not for imports: below it the daemon starts nothing any more.
        free = (hardware.disk_free_mb(home.root) - settings.min_free_disk_mb) * 2**20
        arrivals: list[Arrival] = []

        def place_of(announced: Announced) -> Path | None:
            arrival = self._expect(announced, options.as_new)
            if arrival.place is not None:
                _make(arrival.place, arrival.run_id)
            arrivals.append(arrival)
            return arrival.place

        try:
            receive(upload, options.size, free, place_of, self._check_same)
            return [self._arrived(arrival) for arrival in arrivals]
        except BaseException:
            _discard(arrivals)
            raise

    def _expect(self, announced: Announced, as_new: bool) -> Arrival:
        run_id = new_run_id() if as_new else announced.run_id
        known = not as_new and self._engine.registry.get(run_id) is not None
        place = None if known else intake.staging(self._engine.home, run_id).path
        return Arrival(announced, run_id, place)

    def _check_same(self, archived: ArchivedRun) -> None:
        """Refuse a run whose id another run of this home has."""
        run_id = archived.run_id
        here = self._engine.live.stored(run_id)
        if here.run.deleted:
            raise RunExistsError(
                f"run {run_id} is in this home's trash; take it out (mosaic restore {run_id}) or "
                "import a second copy with --as-new"
            )
        run_dir = self._engine.live.run_dir(here).path
        others = imports.differing(run_dir, archived, self._cleaner(run_id))
        if here.run.live or others:
            shown = ", ".join(others[:3]) or "it has not ended"
            raise RunExistsError(
                f"another run {run_id} is in this home already (different: {shown}); "
                "import this one under a new id with --as-new"
            )

    def _arrived(self, arrival: Arrival) -> tuple[Arrival, Run, Vitals]:
        if arrival.place is None:
            stored = self._engine.live.stored(arrival.run_id)
            return arrival, stored.run, stored.vitals
        if arrival.run_id != arrival.announced.run_id:
            rename_run(arrival.place, arrival.announced.run_id, arrival.run_id)
            imports.note_origin(arrival.place, arrival.announced.run_id)
        run, vitals = imports.load(arrival.place, arrival.run_id)
        _check_message(run, vitals)
        # Synced while it is out of sight: after a power cut, a folder with the name of a run must
        # not turn out to hold empty files.
        sync(arrival.place)
        return arrival, run, vitals

    def _admit(self, arrival: Arrival, run: Run, vitals: Vitals) -> pb.ImportedRun:
        """Make a run that has been proven visible."""
        home, run_id = self._engine.home, arrival.run_id
        if arrival.place is not None:
            # Checked again on the loop's own thread, where nothing comes between this and the
            # rename: unpacking took a while, and another client may have imported the same run.
            if self._engine.registry.get(run_id) is not None:
                raise RunExistsError(f"run {run_id} was imported by another client in the meantime")
            # On disk before it is announced: after a crash in between, the next daemon finds it.
            os.rename(arrival.place, home.run_dir(run_id))
            atomic.sync_folder(home.runs)
            self._engine.journal.publish(run, vitals)
            directory = self._engine.live.run_dir(StoredRun(run, vitals, 0))
            housekeeping.keep_logs(home, run_id, directory)
        stored = StoredRun(run, vitals, 0)
        return pb.ImportedRun(
            run=run_message(stored, str(self._engine.live.run_dir(stored).path)),
            original_id=arrival.announced.run_id,
            created=arrival.place is not None,
            files=arrival.announced.files,
            bytes=arrival.announced.size,
        )


class _Upload(Iterator[bytes]):
    """A client's stream of chunks, for a thread to read."""

    def __init__(
        self, requests: AsyncIterator[pb.ImportChunk], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._requests = requests
        self._loop = loop
        self._waiting: concurrent.futures.Future[bytes] | None = None
        self._gone = False

    def __next__(self) -> bytes:
        # `_waiting` before `_gone`, and `give_up` the other way round: whichever comes first, one
        # of the two sees the other, and no read waits for a client that has left.
        self._waiting = asyncio.run_coroutine_threadsafe(self._receive(), self._loop)
        if self._gone:
            self._waiting.cancel()
        try:
            data = self._waiting.result()
        except concurrent.futures.CancelledError:
            raise ArchiveError("the client went away in the middle of the archive") from None
        if not data:
            raise StopIteration
        return data

    def give_up(self) -> None:
        """Nothing more will come."""
        self._gone = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def _receive(self) -> bytes:
        chunk = await anext(self._requests, pb.ImportChunk())
        return bytes(chunk.data)


def _check_message(run: Run, vitals: Vitals) -> None:
    """Check that a row can be sent: one that is too large would break every list it is in."""
    size = run_message(StoredRun(run, vitals, 0), "").ByteSize()
    if size > _LARGEST_ROW:
        raise ArchiveError(f"the record of run {run.run_id} has {size:,} bytes")


def _describe(sources: list[Source], checkpoints: bool) -> Manifest:
    described = [survey(source, checkpoints) for source in sources]
    for source, run in zip(sources, described, strict=True):
        # Names of runs and files go into the manifest as they are.
        if source.cleaner.holds(run.model_dump_json().encode()):
            raise ArchiveError(
                f"the name of run {run.run_id} or of one of its files holds a secret of this "
                "home; rename it (mosaic edit, mv), then export again"
            )
    return manifests.describe(described)


def _make(place: Path, run_id: str) -> None:
    try:
        place.mkdir()
    except FileExistsError:
        raise RunExistsError(f"run {run_id} is being imported by another client now") from None


def _discard(made: list[Arrival]) -> None:
    for arrival in made:
        if arrival.place is not None:
            remove_tree(arrival.place)
