"""The gRPC handlers of a run's own files: its configuration and everything in its directory."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

from grpc.aio import ServicerContext

from mosaic.errors import RunFileError
from mosaic.runs import files
from mosaic.trainer.api.resolve import resolve_run
from mosaic.trainer.loop.engine import Engine
from mosaic.wire import trainer_pb2 as pb

# Well below the 4 MB that a gRPC message may have by default, also with long names.
_CHUNK = 1 << 18
_PAGE = 1000
_LARGEST_CONFIG = 2**21


class FileHandlers:
    """GetRunConfig, ListRunFiles and GetRunFile."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def GetRunConfig(
        self, request: pb.GetRunConfigRequest, _: ServicerContext
    ) -> pb.RunConfig:
        """The document a run was submitted with, as it is stored."""
        stored = await resolve_run(self._engine, request.run_id)
        path = self._engine.live.run_dir(stored).config
        content = await asyncio.to_thread(_whole, path.parent, path.name)
        return pb.RunConfig(config_json=content)

    async def ListRunFiles(
        self, request: pb.ListRunFilesRequest, _: ServicerContext
    ) -> pb.ListRunFilesReply:
        """One page of a folder."""
        stored = await resolve_run(self._engine, request.run_id)
        found = await asyncio.to_thread(
            files.list_folder,
            self._engine.live.run_dir(stored).path,
            request.folder,
            request.recursive,
        )
        # By name and not by number: a file that appears between two pages moves no other one.
        rest = [entry for entry in found if entry.path > request.after]
        shown = [
            pb.RunFile(path=item.path, kind=item.kind, size=item.size, modified_at=item.modified_at)
            for item in rest[:_PAGE]
        ]
        return pb.ListRunFilesReply(files=shown, more=len(rest) > _PAGE)

    async def GetRunFile(
        self, request: pb.GetRunFileRequest, _: ServicerContext
    ) -> AsyncIterator[pb.FileChunk]:
        """A file up to the end it has now: one that grows for ever is not sent for ever."""
        stored = await resolve_run(self._engine, request.run_id)
        run_dir = self._engine.live.run_dir(stored).path
        handle = await asyncio.to_thread(files.open_file, run_dir, request.path)
        with handle:
            info = os.fstat(handle.fileno())
            at, end = _span(request.offset, request.limit, info.st_size)
            # At least one chunk, even of an empty file: it carries the size and the time.
            while True:
                data = await asyncio.to_thread(_read_at, handle, at, min(_CHUNK, end - at))
                yield pb.FileChunk(
                    data=data, offset=at, size=info.st_size, modified_at=info.st_mtime
                )
                at += len(data)
                # No data before the end: the file was cut in the meantime.
                if at >= end or not data:
                    return


def _span(offset: int, limit: int, size: int) -> tuple[int, int]:
    """Which bytes are asked for; an offset past the end asks for none."""
    start = max(0, size + offset) if offset < 0 else min(offset, size)
    return start, min(size, start + limit) if limit else size


def _read_at(handle: BinaryIO, offset: int, count: int) -> bytes:
    handle.seek(offset)
    return handle.read(count)


def _whole(run_dir: Path, name: str) -> str:
    with files.open_file(run_dir, name) as handle:
        content = handle.read(_LARGEST_CONFIG + 1)
    if len(content) > _LARGEST_CONFIG:
        raise RunFileError(f"{name} has more than {_LARGEST_CONFIG:,} bytes; it is not a config")
    return content.decode(errors="replace")
