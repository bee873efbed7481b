"""What a run leaves behind, read through the daemon: files, logs, metrics, frames, telemetry."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mosaic.client import files as run_files
from mosaic.client.calls import Calls
from mosaic.config.json_types import JsonValue
from mosaic.errors import RunFileError
from mosaic.records import (
    EpisodeBatch,
    FrameRecord,
    LogChunk,
    MetricBatch,
    StepBatch,
)
from mosaic.records.messages import (
    read_episodes,
    read_frame,
    read_log_chunk,
    read_metrics,
    read_steps,
)
from mosaic.wire import trainer_pb2 as pb

if TYPE_CHECKING:
    from mosaic.client.curves import Curve


class RunContent:
    """The part of the SDK that reads what runs have written."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    # ------------------------------------------------------------ files

    def config(self, run_id: str) -> dict[str, JsonValue]:
        """The configuration a run was submitted with; secrets by reference, ready to submit again.

        Raises:
            RunFileError: It is gone or damaged.
        """
        reply = self._calls.unary("GetRunConfig", pb.GetRunConfigRequest(run_id=run_id))
        try:
            document: object = json.loads(reply.config_json)
        except (ValueError, RecursionError) as error:
            raise RunFileError(f"the config of run {run_id} is damaged: {error}") from None
        if not isinstance(document, dict):
            raise RunFileError(f"the config of run {run_id} is damaged: it is not a JSON object")
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
            reply = self._calls.unary("ListRunFiles", request)
            found += run_files.page(reply)
            if not reply.more:
                return found
            request.after = found[-1].path

    def read_file(
        self, run_id: str, path: str, *, offset: int = 0, limit: int = 0
    ) -> run_files.FileContent:
        """Bytes of a run's file: `config.json`, `provenance.json`, `exit.json`, a log, a video.

        `.text()` and `.document()` (JSON) decode them. Follow a growing file by calling again with
        `offset=content.end`; if `content.size` is below that offset, the file was rewritten.

        Args:
            run_id: An id, a unique prefix, or `last`.
            path: Relative to the run directory.
            offset: Where to begin; negative: that many bytes before the end.
            limit: The most bytes to read; by default all of them, if they are at most 64 MB.

        Raises:
            RunFileError: It is missing, not a regular file, outside the run, or too large.
        """
        request = pb.GetRunFileRequest(run_id=run_id, path=path, offset=offset, limit=limit)
        allowed = run_files.MOST_BYTES if not limit else 2**63
        return run_files.collect(path, self._calls.stream("GetRunFile", request), allowed)

    def download(self, run_id: str, path: str, target: Path) -> int:
        """Bring a local copy of a run's file up to date; the copy's size afterwards.

        Only what the file has grown by since the last call is fetched, so it suits event files and
        videos of a live run; a file that became shorter is fetched again from the beginning.

        Raises:
            RunFileError: It is missing, not a regular file, or outside the run.
        """
        have = target.stat().st_size if target.exists() else 0
        request = pb.GetRunFileRequest(run_id=run_id, path=path, offset=have)
        size = run_files.append(target, self._calls.stream("GetRunFile", request))
        # Shorter than the copy: it was rewritten, so its beginning has changed as well.
        if size < have:
            request.offset = 0
            size = run_files.append(target, self._calls.stream("GetRunFile", request))
        return size

    # ------------------------------------------------------------ streams

    def logs(
        self,
        run_id: str,
        *,
        stream: str = "",
        follow: bool = False,
        grep: str = "",
        tail_lines: int = 0,
        lifecycle: bool = False,
        offset: int = 0,
        progress: bool = False,
        chunk_bytes: int = 0,
    ) -> Iterator[LogChunk]:
        """What a run printed, in chunks of whole lines.

        Args:
            run_id: An id, a unique prefix, or `last`.
            stream: `stdout` or `stderr`; both by default.
            follow: Continue until the run ends.
            grep: Only lines that match this regular expression.
            tail_lines: Begin this many lines before the end.
            lifecycle: Include the lines in which the worker reports to the daemon.
            offset: Byte to begin at, if a single stream is asked for.
            progress: Also send chunks without text, so that a long search shows how far it is.
            chunk_bytes: The most of the log that a chunk covers; a megabyte by default.

        Raises:
            InvalidArgumentError: `grep` is not a regular expression.
        """
        request = pb.StreamRunLogsRequest(
            run_id=run_id,
            stream=stream,
            follow=follow,
            grep=grep,
            tail_lines=tail_lines,
            lifecycle=lifecycle,
            offset=offset,
            progress=progress,
            chunk_bytes=chunk_bytes,
        )
        yield from map(read_log_chunk, self._calls.stream("StreamRunLogs", request))

    def metrics(
        self, run_id: str, *, tags: Sequence[str] = (), follow: bool = False, max_points: int = 0
    ) -> Iterator[MetricBatch]:
        """Scalar curves in batches.

        Args:
            run_id: An id, a unique prefix, or `last`.
            tags: Only these scalars.
            follow: Continue until the run ends.
            max_points: Thin each curve to this many points; extremes are kept.
        """
        request = pb.StreamRunMetricsRequest(
            run_id=run_id, tags=tags, follow=follow, max_points=max_points
        )
        yield from map(read_metrics, self._calls.stream("StreamRunMetrics", request))

    def curves(self, run_id: str, *tags: str, max_points: int = 0) -> dict[str, "Curve"]:
        """Whole curves by tag, as NumPy arrays; all of them, or those that are named.

        Args:
            run_id: An id, a unique prefix, or `last`.
            tags: Such as `charts/episodic_return`.
            max_points: Thin each curve to this many points; extremes are kept.

        Raises:
            InvalidArgumentError: The run has no curve of this name.
        """
        from mosaic.client.curves import collect

        return collect(self.metrics(run_id, max_points=max_points), tags, run_id)

    def frames(
        self, run_id: str, *, max_fps: float = 0.0, max_dim: int = 0, jpeg_quality: int = 0
    ) -> Iterator[FrameRecord]:
        """Live pictures of a run until it ends; 0 means the daemon's own limit."""
        request = pb.StreamFramesRequest(
            run_id=run_id, max_fps=max_fps, max_dim=max_dim, jpeg_quality=jpeg_quality
        )
        yield from map(read_frame, self._calls.stream("StreamFrames", request))

    def steps(
        self, run_id: str, *, after: int = 0, follow: bool = False, episode: int | None = None
    ) -> Iterator[StepBatch]:
        """Recorded steps, then live ones.

        Args:
            run_id: An id, a unique prefix, or `last`.
            after: Skip records up to this sequence number.
            follow: Continue until the run ends.
            episode: Only this episode.
        """
        request = pb.StreamRunStepsRequest(
            run_id=run_id, after=after, follow=follow, episode=episode
        )
        yield from map(read_steps, self._calls.stream("StreamRunSteps", request))

    def episodes(
        self, run_id: str, *, after: int = 0, follow: bool = False
    ) -> Iterator[EpisodeBatch]:
        """Recorded episodes, then live ones; `after` skips records up to a sequence number."""
        request = pb.StreamRunEpisodesRequest(run_id=run_id, after=after, follow=follow)
        yield from map(read_episodes, self._calls.stream("StreamRunEpisodes", request))
