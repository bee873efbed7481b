"""Writing an archive: look at every file once to describe it, once more to send it off."""

import hashlib
import os
import stat
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mosaic.archive.content import Cleaner, plain_pieces
from mosaic.archive.gzip_writer import GzipWriter
from mosaic.archive.manifest import (
    FILE_NAME,
    ArchivedFile,
    ArchivedRun,
    LeftOut,
    Manifest,
    safe_path,
)
from mosaic.errors import ArchiveError, HoldsSecretError

# A quarter of what a gRPC message may hold.
_SENT_AT_ONCE = 2**20
_CHECKPOINTS = "checkpoints"
# Locks and the shared index of an SQLite log mean something to living processes only.
_NOT_KEPT = ("supervisor.lock", "imported.json", "-shm")


@dataclass(frozen=True)
class Source:
    """A run to be archived: where it lies, and a description whose file list is still empty."""

    run_dir: Path
    run: ArchivedRun
    cleaner: Cleaner


def survey(source: Source, checkpoints: bool = True) -> ArchivedRun:
    """Describe every file of a run as it will be archived.

    Raises:
        OSError: A file cannot be read.
    """
    files: list[ArchivedFile] = []
    left_out: list[LeftOut] = []
    redacted: list[str] = []
    for path, name in _walk(source.run_dir, "", left_out):
        if not checkpoints and _CHECKPOINTS in name.split("/")[:-1]:
            left_out.append(LeftOut(path=name, why="checkpoints were not asked for"))
            continue
        try:
            file, changed = _describe(source.cleaner, path, safe_path(name))
        except HoldsSecretError:
            left_out.append(LeftOut(path=name, why="it holds a secret of this home"))
            continue
        except ValueError as error:
            left_out.append(LeftOut(path=ascii(name), why=str(error)))
            continue
        files.append(file)
        if changed:
            redacted.append(name)
    found = {"files": files, "left_out": left_out, "redacted": redacted}
    return source.run.model_copy(update=found)


def pack(manifest: Manifest, sources: Sequence[Source]) -> Iterator[bytes]:
    """The archive, piece by piece.

    Raises:
        ArchiveError: A file changed after it was described.
        OSError: A file cannot be read.
    """
    packed = GzipWriter()
    waiting = bytearray(packed.begin())
    for piece in _tar(manifest, sources):
        waiting += packed.add(piece)
        if len(waiting) >= _SENT_AT_ONCE:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting) + packed.end()


def _tar(manifest: Manifest, sources: Sequence[Source]) -> Iterator[bytes]:
    content = manifest.to_bytes()
    yield _header(FILE_NAME, len(content), int(manifest.created_at))
    yield content + _padding(len(content))
    for source, run in zip(sources, manifest.runs, strict=True):
        redacted = set(run.redacted)
        for file in run.files:
            yield _header(f"{run.run_id}/{file.path}", file.size, file.mtime)
            # What was clean when it was described is clean if its checksum is still the same.
            read = source.cleaner.pieces if file.path in redacted else plain_pieces
            yield from _same(read(source.run_dir / file.path), file)
            yield _padding(file.size)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _same(pieces: Iterator[bytes], file: ArchivedFile) -> Iterator[bytes]:
    """The pieces, if they still are what was described."""
    size, digest = 0, hashlib.sha256()
    for piece in pieces:
        size += len(piece)
        digest.update(piece)
        if size > file.size:
            break
        yield piece
    if size != file.size or digest.hexdigest() != file.sha256:
        raise ArchiveError(f"{file.path} changed while it was being exported; try again")


def _describe(cleaner: Cleaner, path: Path, name: str) -> tuple[ArchivedFile, bool]:
    """A file, and whether cleaning changed it."""
    modified = os.stat(path, follow_symlinks=False).st_mtime
    size, digest = 0, hashlib.sha256()
    for piece in cleaner.pieces(path):
        size += len(piece)
        digest.update(piece)
    mtime = min(max(0, int(modified)), 2**33 - 1)
    described = ArchivedFile(path=name, size=size, sha256=digest.hexdigest(), mtime=mtime)
    return described, cleaner.may_change(path) and described.sha256 != _plain_digest(path)


def _plain_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _walk(folder: Path, prefix: str, left_out: list[LeftOut]) -> Iterator[tuple[Path, str]]:
    """Every regular file below a folder; anything else is noted and not followed."""
    with os.scandir(folder) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    for entry in ordered:
        name = prefix + entry.name
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            yield from _walk(folder / entry.name, f"{name}/", left_out)
        elif not stat.S_ISREG(mode):
            kind = "a link" if stat.S_ISLNK(mode) else "not a regular file"
            left_out.append(LeftOut(path=ascii(name)[1:-1], why=f"it is {kind}"))
        elif not name.endswith(_NOT_KEPT):
            yield folder / entry.name, name


def _header(name: str, size: int, mtime: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, mtime, 0o644
    return info.tobuf(format=tarfile.PAX_FORMAT)


def _padding(size: int) -> bytes:
    return bytes(-size % tarfile.BLOCKSIZE)
