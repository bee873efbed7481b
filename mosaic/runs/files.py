"""Looking into a run directory without ever leaving it: listing folders, opening files.

A worker may put anything there, also a link to a secret or a pipe without a writer. So a path is
resolved, checked, and then opened one folder at a time without following a link: what is swapped
between the check and the opening is refused, not followed.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mosaic.config.paths import confine
from mosaic.errors import ConfinementError, RunFileError
from mosaic.runs.opening import FOLDER, NEVER_WAIT, open_below

_FILE = os.O_RDONLY | NEVER_WAIT
# A worker may write a tree without end; a listing has one.
_DEEPEST = 16
_MOST_ENTRIES = 100_000


@dataclass(frozen=True)
class FoundFile:
    """An entry of a run directory.

    Attributes:
        path: Relative to the run directory.
        kind: `file`, `folder`, `link` or `other`.
    """

    path: str
    kind: str
    size: int
    modified_at: float


def list_folder(run_dir: Path, folder: str, recursive: bool = False) -> list[FoundFile]:
    """What a folder of a run holds, sorted by path; links are named, not followed.

    Raises:
        RunFileError: It is missing, is no folder, or is outside the run.
    """
    descriptor, place = _open(run_dir, folder, FOLDER)
    try:
        prefix = "" if place == "." else f"{place}/"
        found = []
        for entry in _walk(descriptor, prefix, _DEEPEST if recursive else 0):
            found.append(entry)
            if len(found) == _MOST_ENTRIES:
                break
    finally:
        os.close(descriptor)
    return sorted(found, key=lambda entry: entry.path)


def open_file(run_dir: Path, path: str) -> BinaryIO:
    """A regular file of a run, opened for reading.

    Raises:
        RunFileError: It is missing, is no regular file, or is outside the run.
    """
    descriptor, _ = _open(run_dir, path, _FILE)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise RunFileError(f"{path!r} is {kind} in the run directory; only files can be read")
    # Unbuffered: chunks are read at offsets, from a file that may grow.
    return os.fdopen(descriptor, "rb", buffering=0)


def _open(run_dir: Path, path: str, flags: int) -> tuple[int, str]:
    """The descriptor of a path inside a run, and the path with its links resolved."""
    try:
        place = confine(run_dir, path).relative_to(run_dir.resolve())
        return open_below(run_dir.resolve(), place.parts, flags), str(place)
    except ConfinementError:
        raise RunFileError(
            f"{path!r} is outside the run directory; give a path relative to it"
        ) from None
    except FileNotFoundError:
        raise RunFileError(f"the run has no {path!r}") from None
    except (OSError, ValueError, RuntimeError) as error:  # the last: links in a circle
        problem = error.strerror if isinstance(error, OSError) else str(error)
        raise RunFileError(f"{path!r} cannot be read: {problem}") from None


def _walk(folder: int, prefix: str, depth: int) -> Iterator[FoundFile]:
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                info = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # removed while we looked
            path = prefix + os.fsencode(entry.name).decode(errors="replace")
            yield FoundFile(path, _kind(info.st_mode), info.st_size, info.st_mtime)
            if stat.S_ISDIR(info.st_mode) and depth:
                yield from _walk_below(entry.name, folder, f"{path}/", depth - 1)


def _walk_below(name: str, parent: int, prefix: str, depth: int) -> Iterator[FoundFile]:
    try:
        folder = os.open(name, FOLDER, dir_fd=parent)
    except OSError:
        return  # removed, replaced or not readable
    try:
        yield from _walk(folder, prefix, depth)
    finally:
        os.close(folder)


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"
