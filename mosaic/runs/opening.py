"""The one way to open a file that a run, or anyone who can write to its folder, may have put there.

A worker may leave a link to a secret, a pipe without a writer, a folder or a gigabyte where a small
file belongs. So each component is opened without following a link, nothing is waited for, only
regular files count, and what is read at once is bounded. Everything here raises `OSError` alone:
for a caller, a file that is not one is a file that cannot be read.
"""

import errno
import hashlib
import json
import os
import stat
import time
from pathlib import Path

from mosaic.config.json_types import JsonValue

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a pipe that has no writer waits for one for ever.
NEVER_WAIT = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
# The largest document that we write ourselves (a config) has at most two megabytes.
LARGEST_DOCUMENT = 16 * 2**20


def open_below(root: Path | str, parts: tuple[str, ...], flags: int, mode: int = 0o644) -> int:
    """Open one component after the other, so that no link below `root` is followed.

    `root` itself may be reached through links: people move a home or a run to a larger disk.
    """
    current = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for number, part in enumerate(parts, start=1):
        try:
            last = number == len(parts)
            below = os.open(part, flags if last else FOLDER, mode, dir_fd=current)
        finally:
            os.close(current)
        current = below
    return current


def open_regular(root: Path | str, place: str, flags: int = os.O_RDONLY) -> int:
    """The descriptor of a regular file at `place` below `root`.

    Raises:
        OSError: It is missing, is no regular file, or a link is on the way.
    """
    parts = tuple(place.split("/"))
    if ".." in parts:
        raise OSError(errno.EINVAL, "outside the folder", place)
    try:
        descriptor = open_below(root, parts, flags | NEVER_WAIT)
    except ValueError as error:  # a NUL in the name
        raise OSError(errno.EINVAL, str(error), place) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", place)
    return descriptor


def read_regular(root: Path, place: str, limit: int = LARGEST_DOCUMENT) -> bytes:
    """All of a file, if it is no larger than `limit`.

    Raises:
        OSError: It is missing, is no regular file, or is too large.
    """
    with os.fdopen(open_regular(root, place), "rb") as handle:
        content = handle.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit:,} bytes", place)
    return content


def size_and_digest(root: Path, place: str) -> tuple[int, str]:
    """How many bytes a file has, and their SHA-256.

    Raises:
        OSError: As for `open_regular`.
    """
    with os.fdopen(open_regular(root, place), "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return file.tell(), digest


def read_end(root: Path, place: str, count: int) -> bytes:
    """The last `count` bytes of a file; none where there is no such file."""
    try:
        descriptor = open_regular(root, place)
    except OSError:
        return b""
    try:
        size = os.fstat(descriptor).st_size
        return os.pread(descriptor, count, max(0, size - count))
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def read_document(path: Path) -> dict[str, JsonValue] | None:
    """A JSON object that another process writes whole; None when it is absent or damaged."""
    try:
        document = json.loads(read_regular(path.parent, path.name))
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def names_in(root: Path, place: str) -> list[str]:
    """What a folder below `root` holds; nothing where it is none or a link."""
    try:
        descriptor = open_below(root, tuple(place.split("/")), FOLDER)
    except OSError:
        return []
    try:
        return os.listdir(descriptor)
    finally:
        os.close(descriptor)


def is_regular(path: Path) -> bool:
    """Whether a file of its own is there: no link, folder or pipe."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def clear_the_way(path: Path) -> bool:
    """Move aside what is in the place of a file but is none; whether something was.

    It is kept under another name: it may be the only copy of something.
    """
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    if stat.S_ISREG(mode):
        return False
    os.rename(path, path.with_name(f"{path.name}.set-aside-{time.time_ns()}"))
    return True
