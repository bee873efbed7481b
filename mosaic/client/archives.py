"""Archives on the client's side: written whole or not at all, and sent in pieces."""

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import BinaryIO, TypedDict

from mosaic.errors import ArchiveError
from mosaic.records.archive import ExportedRun, ExportResult, LeftOut
from mosaic.system import atomic
from mosaic.wire import trainer_pb2 as pb

SUFFIX = ".mosaic.tar.gz"
_PIECE = 2**20


class _ArchivedFile(TypedDict):
    """What is read here of a file in the manifest."""

    size: int


class _ArchivedRun(TypedDict):
    """What is read here of a run in the manifest."""

    run_id: str
    run_name: str
    files: list[_ArchivedFile]
    left_out: list[dict[str, str]]
    redacted: list[str]


class _Manifest(TypedDict, total=False):
    """What is read here of `manifest.json`, which the daemon itself has written."""

    runs: list[_ArchivedRun]


def write(chunks: Iterable[pb.ArchiveChunk], target: Path, overwrite: bool) -> ExportResult:
    """Write what the daemon sends into a file.

    Raises:
        ArchiveError: The file exists, or cannot be written.
    """
    if target.exists() and not overwrite:
        raise ArchiveError(
            f"{target} exists; choose another name with --output or replace it with --force"
        )
    try:
        with atomic.replacing(target) as file:
            manifest, size, digest = _copy(chunks, file)
    except OSError as error:
        raise ArchiveError(f"cannot write {target}: {error.strerror}") from None
    runs = tuple(_exported(run) for run in manifest.get("runs", ()))
    return ExportResult(file=str(target), size=size, sha256=digest, runs=runs)


def _exported(run: _ArchivedRun) -> ExportedRun:
    return ExportedRun(
        run_id=run["run_id"],
        run_name=run["run_name"],
        files=len(run["files"]),
        bytes=sum(file["size"] for file in run["files"]),
        left_out=tuple(LeftOut(path=item["path"], why=item["why"]) for item in run["left_out"]),
        redacted=tuple(run["redacted"]),
    )


def _copy(chunks: Iterable[pb.ArchiveChunk], file: BinaryIO) -> tuple[_Manifest, int, str]:
    manifest: _Manifest = {}
    size, digest = 0, hashlib.sha256()
    for chunk in chunks:
        if chunk.manifest_json:
            manifest = json.loads(chunk.manifest_json)
        file.write(chunk.data)
        digest.update(chunk.data)
        size += len(chunk.data)
    return manifest, size, digest.hexdigest()


def open_archive(file: Path) -> FileIO:
    """A file to be sent; unbuffered, so that it can be closed while a pipe keeps a reader waiting.

    Raises:
        ArchiveError: There is no such file.
    """
    try:
        return file.open("rb", buffering=0)
    except OSError as error:
        raise ArchiveError(f"cannot read {file}: {error.strerror}") from None


def send(content: FileIO, as_new: bool) -> Iterator[pb.ImportChunk]:
    """The options of an import, then the file in pieces."""
    facts = os.fstat(content.fileno())
    # A pipe has no size to announce; the daemon then relies on the manifest alone.
    size = facts.st_size if stat.S_ISREG(facts.st_mode) else 0
    yield pb.ImportChunk(options=pb.ImportOptions(size=size, as_new=as_new))
    # A daemon that refuses early ends the call, and its caller closes the file under us.
    with suppress(ValueError):
        while piece := content.read(_PIECE):
            yield pb.ImportChunk(data=piece)
