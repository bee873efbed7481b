"""Unpacking an archive into hidden folders, checking every byte on the way."""

import hashlib
import mmap
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from mosaic.archive import manifest as manifests
from mosaic.archive.manifest import ArchivedFile, Manifest
from mosaic.archive.reader import ArchiveReader, Entry
from mosaic.errors import ArchiveError
from mosaic.system import atomic

# Ours shrink to a tenth at most, long runs of equal numbers aside.
_USUAL_SIZE, _LARGEST_RATIO = 2**30, 200
# The files in which a run writes its own id.
_NAMED_IN = ("events.jsonl", "config.json", "analytics.json", "logs/stdout.log")


def read_manifest(reader: ArchiveReader) -> Manifest:
    """The manifest, which is the first entry.

    Raises:
        ArchiveError: There is none, or it is not one.
    """
    entry = reader.next_entry()
    if entry is None or entry.name != manifests.FILE_NAME:
        raise ArchiveError(
            f"the file does not begin with {manifests.FILE_NAME}: it is not a MOSAIC archive; "
            "`mosaic export RUN` writes one"
        )
    if entry.size > manifests.MAX_MANIFEST:
        raise ArchiveError(f"{manifests.FILE_NAME} has {entry.size:,} bytes; it is not ours")
    return manifests.parse(b"".join(reader.content(entry)))


def check_size(manifest: Manifest, archive_size: int, free: int) -> None:
    """Refuse an archive that does not fit or swells beyond belief; `archive_size` 0: unknown.

    Raises:
        ArchiveError: It is too large.
    """
    size = manifest.size
    if size > free:
        raise ArchiveError(
            f"the archive needs {size / 2**20:,.0f} MB, the home has {max(0, free) / 2**20:,.0f} "
            "MB to spare; make room or choose another home with MOSAIC_HOME"
        )
    if archive_size and size > max(_USUAL_SIZE, archive_size * _LARGEST_RATIO):
        raise ArchiveError(
            f"{archive_size:,} bytes would swell to {size:,}: this looks like a bomb, not like runs"
        )


def unpack(reader: ArchiveReader, manifest: Manifest, places: Mapping[str, Path]) -> None:
    """Write the files of each run below its place; a run without a place is only checked.

    The entries must be exactly those of the manifest, in its order, so that nothing can be
    missing, added or given twice.

    Raises:
        ArchiveError: The archive is not what its manifest says.
        OSError: The disk refuses.
    """
    for run in manifest.runs:
        place = places.get(run.run_id)
        for file in run.files:
            entry = reader.next_entry()
            wanted = f"{run.run_id}/{file.path}"
            if entry is None or entry.name != wanted:
                found = "ends" if entry is None else f"has {entry.name!r}"
                raise ArchiveError(f"the archive {found} where {wanted!r} should be")
            if entry.size != file.size:
                raise ArchiveError(f"{wanted} has {entry.size:,} bytes instead of {file.size:,}")
            _take(reader, entry, file, place)
    extra = reader.next_entry()
    if extra is not None:
        raise ArchiveError(f"the archive holds {extra.name!r}, which its manifest does not list")


def _take(reader: ArchiveReader, entry: Entry, file: ArchivedFile, place: Path | None) -> None:
    digest = hashlib.sha256()
    pieces = _hashed(reader.content(entry), digest)
    if place is None:
        for _ in pieces:
            pass
    else:
        _write(place / file.path, pieces, file.mtime)
    if digest.hexdigest() != file.sha256:
        raise ArchiveError(f"{entry.name} does not have the checksum that the manifest names")


def _hashed(pieces: Iterator[bytes], digest: "hashlib._Hash") -> Iterator[bytes]:
    for piece in pieces:
        digest.update(piece)
        yield piece


def _write(path: Path, pieces: Iterator[bytes], mtime: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Only new files: names that the file system takes for one must not overwrite each other.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o644), "wb", buffering=0) as handle:
        for piece in pieces:
            left = memoryview(piece)
            while left:
                left = left[handle.write(left) :]
        os.fsync(handle.fileno())
        os.utime(handle.fileno(), (mtime, mtime))


def sync(place: Path) -> None:
    """Make the folders of an unpacked run survive a power cut."""
    for folder, _, _ in os.walk(place):
        atomic.sync_folder(Path(folder))


def rename_run(place: Path, old: str, new: str) -> None:
    """Give an unpacked run another id, in the files in which it writes its own.

    Both ids have the same length, so every other byte stays where it is.
    """
    for name in _NAMED_IN:
        path = place / name
        if not path.is_file() or not path.stat().st_size:
            continue
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
            at = content.find(old.encode())
            while at >= 0:
                content[at : at + len(new)] = new.encode()
                at = content.find(old.encode(), at + len(new))
            content.flush()
