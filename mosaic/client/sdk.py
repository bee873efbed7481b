"""`TrainerClient`: everything the daemon can do, as plain Python.

from mosaic.client import TrainerClient

with TrainerClient.connect() as trainer:
    run = trainer.submit({"algo": "ppo", "env_id": "CartPole-v1", "total_timesteps": 50_000})
    print(trainer.wait(run.run_id).outcome)
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import grpc

from mosaic.client import archives, connection
from mosaic.client import files as run_files
from mosaic.client.records import change_record
from mosaic.config.paths import Home
from mosaic.connect.channel import open_channel
from mosaic.connect.endpoint import find_endpoint
from mosaic.errors import (
    AmbiguousRunError,
    ArchiveError,
    DaemonNotRunningError,
    InvalidConfigError,
    InvalidTransitionError,
    MosaicError,
    Problem,
    RunExistsError,
    RunFileError,
    RunNotFoundError,
    StorageError,
)
from mosaic.records.run import RunRecord
from mosaic.records.wire import read_run
from mosaic.wire import trainer_pb2 as pb
from mosaic.wire import trainer_pb2_grpc
from mosaic.workers.capabilities import WorkerCapabilities

if TYPE_CHECKING:
    from mosaic.config.model import TrainRunConfig

# A checked configuration (`mosaic.config.build`); a document or JSON text from anyone else.
Config = Union["TrainRunConfig", Mapping[str, Any], str]

_CALL_S = 30.0
# The last problem of a refusal whose list did not fit; validating gives it whole.
_LIST_IS_CUT = "CFG199"
_SHUTDOWN = {
    "leave": pb.ShutdownRequest.LEAVE,
    "stop": pb.ShutdownRequest.STOP,
    "drain": pb.ShutdownRequest.DRAIN,
}


class TrainerClient:
    """A connection to the daemon of one home. It returns typed records."""

    def __init__(self, home: Home, channel: grpc.Channel, token: bytes) -> None:
        self.home = home
        self._channel = channel
        self._stub: Any = trainer_pb2_grpc.TrainerStub(channel)
        self._metadata = (("authorization", f"Bearer {token.decode()}"),)

    @classmethod
    def connect(cls, home: Home | str | None = None, start: bool = False) -> "TrainerClient":
        """Connect to the daemon of a home, after it has proved that it is that.

        Args:
            home: The home; MOSAIC_HOME or the project's `var/` by default.
            start: Start a daemon when none runs.

        Raises:
            DaemonNotRunningError: None runs.
            NotOurDaemonError: Something else answers.
        """
        place = home if isinstance(home, Home) else Home.locate(home)
        try:
            endpoint = find_endpoint(place)
        except DaemonNotRunningError:
            if not start:
                raise
            endpoint = connection.start_daemon(place)
        token = connection.read_token(place)
        channel = open_channel(endpoint.address)
        connection.prove(channel, token)
        return cls(place, channel, token)

    def close(self) -> None:
        """Let go of the connection."""
        self._channel.close()

    def __enter__(self) -> "TrainerClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------ the daemon

    def health(self) -> dict[str, Any]:
        """The daemon's own state."""
        reply = self._call("GetHealth", pb.GetHealthRequest())
        fields = ("instance", "version", "protocol", "epoch", "draining", "pid", "uptime_s")
        return {name: getattr(reply, name) for name in (*fields, "notice")}

    def resources(self) -> dict[str, Any]:
        """Slots, memory, disk and load."""
        reply = self._call("GetResources", pb.GetResourcesRequest())
        plain = {
            field.name: getattr(reply, field.name)
            for field in reply.DESCRIPTOR.fields
            if field.name != "slots"
        }
        slots = [
            {"id": s.id, "run_id": s.run_id, "draining": s.draining, "detail": s.detail}
            for s in reply.slots
        ]
        return {**plain, "slots": slots}

    def workers(self) -> list[dict[str, Any]]:
        """Every worker, with its capabilities or the reason why it cannot be used."""
        reply = self._call("ListWorkers", pb.ListWorkersRequest())
        return [
            {
                "type": worker.type,
                "display_name": worker.display_name,
                "available": worker.available,
                "problem": worker.problem,
                "capabilities": WorkerCapabilities.from_json(worker.capabilities_json)
                if worker.capabilities_json
                else None,
            }
            for worker in reply.workers
        ]

    def shutdown(self, runs: str = "leave") -> int:
        """Stop the daemon; `runs` is `leave`, `stop` or `drain`. Returns the live runs' number."""
        reply = self._call("Shutdown", pb.ShutdownRequest(runs=_SHUTDOWN[runs]))
        return int(reply.live_runs)

    # ------------------------------------------------------------ runs

    def validate(self, config: Config) -> list[Problem]:
        """Every problem of a configuration; nothing is started."""
        reply = self._call("ValidateRun", pb.SubmitRunRequest(config_json=_as_json(config)))
        return [Problem(item.pointer, item.code, item.message) for item in reply.problems]

    def submit(
        self,
        config: Config,
        *,
        idempotency_key: str = "",
        priority: int = 0,
        cold: bool = False,
        parent_run_id: str = "",
    ) -> RunRecord:
        """Submit a run.

        Args:
            config: A configuration built by `mosaic.config.build`, or a document or JSON text in
                the nested or the flat shape.
            idempotency_key: The same key gives the same run; a ULID becomes its id.
            priority: Higher starts first.
            cold: Start a fresh interpreter instead of a warm fork.
            parent_run_id: The run that this one continues, repeats or evaluates.

        Raises:
            InvalidConfigError: With every problem.
        """
        request = pb.SubmitRunRequest(
            config_json=_as_json(config),
            idempotency_key=idempotency_key,
            priority=priority,
            cold=cold,
            parent_run_id=parent_run_id,
        )
        try:
            return read_run(self._call("SubmitRun", request).run)
        except InvalidConfigError as error:
            if error.problems[-1].code != _LIST_IS_CUT:
                raise
        raise InvalidConfigError(self.validate(config))

    def get(self, run_id: str) -> RunRecord:
        """One run, by id, unique prefix or `last`."""
        return read_run(self._call("GetRun", pb.GetRunRequest(run_id=run_id)))

    def list_runs(self, **query: Any) -> tuple[list[RunRecord], str, int]:
        """A page of runs, the token of the next page, and the number of all that fit."""
        reply = self._call("ListRuns", pb.ListRunsRequest(**query))
        return [read_run(run) for run in reply.runs], reply.next_page_token, int(reply.total)

    def watch(self, generation: str = "", since: int = 0) -> Iterator[dict[str, Any]]:
        """The runs as they are, then every change; resumable by `generation` and `sequence`."""
        request = pb.WatchRunsRequest(generation=generation, since=since)
        for change in self._stream("WatchRuns", request):
            yield change_record(change)

    def update(
        self,
        run_id: str,
        *,
        run_name: str | None = None,
        notes: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> RunRecord:
        """Change what people wrote about a run."""
        request = pb.UpdateRunRequest(
            run_id=run_id,
            run_name=run_name,
            notes=notes,
            tags=tags or (),
            set_tags=tags is not None,
        )
        return read_run(self._call("UpdateRun", request))

    def cancel(self, run_id: str, grace_s: float | None = None) -> RunRecord:
        """End a run; its process group is dead when its state is TERM."""
        request = pb.CancelRunRequest(run_id=run_id, grace_s=grace_s)
        return read_run(self._call("CancelRun", request))

    def pause(self, run_id: str, release: bool = False) -> RunRecord:
        """Stop a run at its next safe point; with `release` its slots are given back."""
        request = pb.PauseRunRequest(run_id=run_id, release=release)
        return read_run(self._call("PauseRun", request))

    def resume(self, run_id: str) -> RunRecord:
        """Let a paused run go on."""
        return read_run(self._call("ResumeRun", pb.ResumeRunRequest(run_id=run_id)))

    def checkpoint(self, run_id: str) -> RunRecord:
        """Ask a run to save now; the events after the record's `version` bring the answer.

        The answer is `checkpoint_confirmed` (the newest of the record's `checkpoints` is of this
        moment) or `checkpoint_refused` with a `reason`.

        Raises:
            InvalidTransitionError: It does not run, or its worker cannot save on request.
        """
        return read_run(self._call("CheckpointRun", pb.CheckpointRunRequest(run_id=run_id)))

    def delete(self, run_id: str, purge: bool = False) -> None:
        """Move an ended run to the trash, or remove it past undoing."""
        self._call("DeleteRun", pb.DeleteRunRequest(run_id=run_id, purge=purge))

    def restore(self, run_id: str) -> RunRecord:
        """Take a run back out of the trash."""
        return read_run(self._call("RestoreRun", pb.RestoreRunRequest(run_id=run_id)))

    def events(self, run_id: str, after: int = 0) -> list[dict[str, Any]]:
        """What happened to a run, in order."""
        request = pb.ListRunEventsRequest(run_id=run_id, after=after)
        return [
            {
                "seq": event.seq,
                "at": event.at,
                "kind": event.kind,
                "state": event.state,
                "data": json.loads(event.data_json),
            }
            for event in self._call("ListRunEvents", request).events
        ]

    def wait(self, run_id: str, timeout_s: float | None = None) -> RunRecord:
        """Block until a run has ended.

        Raises:
            TimeoutError: It has not within `timeout_s`.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            record = self.get(run_id)
            if record.ended:
                return record
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"run {run_id} is still {record.state}")
            time.sleep(0.1)

    # ------------------------------------------------------------ files

    def config(self, run_id: str) -> dict[str, Any]:
        """The configuration a run was submitted with; secrets by reference, ready to submit again.

        Raises:
            RunFileError: It is gone or damaged.
        """
        reply = self._call("GetRunConfig", pb.GetRunConfigRequest(run_id=run_id))
        try:
            document: dict[str, Any] = json.loads(reply.config_json)
        except ValueError as error:
            raise RunFileError(f"the config of run {run_id} is damaged: {error}") from None
        return document

    def files(
        self, run_id: str, folder: str = "", recursive: bool = False
    ) -> list[run_files.RunFile]:
        """What is in a run's folder now, sorted by path; also of a run in the trash.

        For example `files(run_id, "videos")`, `files(run_id, "checkpoints")`, or
        `files(run_id, "tensorboard", recursive=True)` for event files in subfolders. To learn
        whether a file or folder is there, list its parent. Links are named, never followed.

        Raises:
            RunFileError: The folder is missing or outside the run.
        """
        found: list[run_files.RunFile] = []
        request = pb.ListRunFilesRequest(run_id=run_id, folder=folder, recursive=recursive)
        while True:
            reply = self._call("ListRunFiles", request)
            found += run_files.page(reply)
            if not reply.more:
                return found
            request.after = found[-1].path

    def read_file(
        self, run_id: str, path: str, *, offset: int = 0, limit: int = 0
    ) -> run_files.FileContent:
        """Bytes of a run's file: `config.json`, `provenance.json`, `exit.json`, a log, a video.

        `.text()` and `.document()` (JSON) decode them. Follow a growing file by calling again with
        `offset=content.end`; `content.size` below that offset means it was written afresh.

        Args:
            run_id: An id, a unique prefix, or `last`.
            path: Relative to the run directory.
            offset: Where to begin; negative: that many bytes before the end.
            limit: The most bytes to read; by default all of them, if they are at most 64 MB.

        Raises:
            RunFileError: It is missing, no regular file, outside the run, or too large.
        """
        request = pb.GetRunFileRequest(run_id=run_id, path=path, offset=offset, limit=limit)
        allowed = run_files.MOST_BYTES if not limit else 2**63
        return run_files.collect(path, self._stream("GetRunFile", request), allowed)

    def download(self, run_id: str, path: str, target: Path) -> int:
        """Bring a local copy of a run's file up to date; the copy's size afterwards.

        Only what the file has grown by since the last call is fetched, so it suits event files and
        videos of a live run; a file that became shorter is fetched again from the beginning.

        Raises:
            RunFileError: It is missing, no regular file, or outside the run.
        """
        have = target.stat().st_size if target.exists() else 0
        request = pb.GetRunFileRequest(run_id=run_id, path=path, offset=have)
        size = run_files.append(target, self._stream("GetRunFile", request))
        if size < have:
            request.offset = 0
            size = run_files.append(target, self._stream("GetRunFile", request))
        return size

    # ------------------------------------------------------------ archives

    def export_runs(
        self,
        run_ids: Sequence[str],
        target: Path,
        *,
        checkpoints: bool = True,
        overwrite: bool = False,
    ) -> dict[str, Any]:
        """Write ended runs into one file; its `size`, `sha256` and `manifest`.

        Raises:
            ArchiveError: A run has not ended, or the file exists.
        """
        request = pb.ExportRunsRequest(run_ids=run_ids, without_checkpoints=not checkpoints)
        return archives.write(self._stream("ExportRuns", request), target, overwrite)

    def import_runs(self, file: Path, *, as_new: bool = False) -> list[dict[str, Any]]:
        """Take the runs of an archive in: for each its record and whether it is new here.

        Raises:
            ArchiveError: The file is damaged, hostile or not ours; nothing was changed.
            RunExistsError: The home has other runs with these ids.
        """
        with archives.open_archive(file) as content:
            chunks = archives.send(content, as_new)
            reply = self._call("ImportRuns", chunks, timeout_s=None)
        return [
            {
                "run": read_run(item.run),
                "original_id": item.original_id,
                "created": item.created,
                "files": item.files,
                "bytes": item.bytes,
            }
            for item in reply.runs
        ]

    # ------------------------------------------------------------ streams

    def logs(self, run_id: str, **options: Any) -> Iterator[tuple[str, str]]:
        """Log text as (stream, whole lines); `follow`, `grep`, `tail_lines`, `stream`."""
        for chunk in self.log_chunks(run_id, **options):
            yield chunk.stream, chunk.text

    def log_chunks(self, run_id: str, **options: Any) -> Iterator[pb.LogChunk]:
        """The same with the bytes each chunk comes from; `offset`, `progress` besides."""
        yield from self._stream("StreamRunLogs", pb.StreamRunLogsRequest(run_id=run_id, **options))

    def metrics(self, run_id: str, **options: Any) -> Iterator[dict[str, Any]]:
        """Scalar curves in batches; `tags`, `follow`, `max_points`."""
        request = pb.StreamRunMetricsRequest(run_id=run_id, **options)
        for batch in self._stream("StreamRunMetrics", request):
            yield {
                "tag": batch.tag,
                "steps": list(batch.steps),
                "values": list(batch.values),
                "wall_times": list(batch.wall_times),
                "total_points": batch.total_points,
            }

    def frames(self, run_id: str, **options: Any) -> Iterator[dict[str, Any]]:
        """Live frames as JPEG with their numbers; `max_fps`, `max_dim`, `jpeg_quality`."""
        request = pb.StreamFramesRequest(run_id=run_id, **options)
        for frame in self._stream("StreamFrames", request):
            yield {field.name: getattr(frame, field.name) for field in frame.DESCRIPTOR.fields}

    def steps(self, run_id: str, **options: Any) -> Iterator[pb.StepBatch]:
        """Recorded steps, then live ones; `after`, `follow`, `episode`."""
        yield from self._stream(
            "StreamRunSteps", pb.StreamRunStepsRequest(run_id=run_id, **options)
        )

    def episodes(self, run_id: str, **options: Any) -> Iterator[pb.EpisodeBatch]:
        """Recorded episodes, then live ones; `after`, `follow`."""
        request = pb.StreamRunEpisodesRequest(run_id=run_id, **options)
        yield from self._stream("StreamRunEpisodes", request)

    # ------------------------------------------------------------ inside

    def _call(self, method: str, request: Any, timeout_s: float | None = _CALL_S) -> Any:
        try:
            return getattr(self._stub, method)(request, metadata=self._metadata, timeout=timeout_s)
        except grpc.RpcError as error:
            raise translate(error) from None

    def _stream(self, method: str, request: Any) -> Iterator[Any]:
        call = getattr(self._stub, method)(request, metadata=self._metadata)
        try:
            yield from call
        except grpc.RpcError as error:
            raise translate(error) from None
        finally:
            call.cancel()


def translate(error: grpc.RpcError) -> MosaicError:
    """The daemon's status as one of our own errors, its text unchanged."""
    code, text = error.code(), error.details() or ""
    for key, value in error.trailing_metadata() or ():
        if key == "mosaic-problems-bin":
            reply = pb.ValidateRunReply.FromString(value)
            return InvalidConfigError(
                [Problem(item.pointer, item.code, item.message) for item in reply.problems]
            )
    if code is grpc.StatusCode.NOT_FOUND:
        return RunNotFoundError(text)
    if code is grpc.StatusCode.OUT_OF_RANGE:
        return RunFileError(text)
    if code is grpc.StatusCode.INVALID_ARGUMENT:
        return AmbiguousRunError(text)
    if code is grpc.StatusCode.FAILED_PRECONDITION:
        return InvalidTransitionError(text)
    if code is grpc.StatusCode.ALREADY_EXISTS:
        return RunExistsError(text)
    if code is grpc.StatusCode.DATA_LOSS:
        return ArchiveError(text)
    if code is grpc.StatusCode.UNAVAILABLE:
        gone = "connect" in text.lower() or "socket" in text.lower()
        return DaemonNotRunningError(f"the daemon is gone: {text}") if gone else StorageError(text)
    return MosaicError(f"{code.name}: {text}")


def _as_json(config: Config) -> str:
    if isinstance(config, str):
        return config
    # Not `isinstance` of the model: `mosaic runs` should not wait for pydantic's import.
    document = config if isinstance(config, Mapping) else config.document()
    return json.dumps(document)
