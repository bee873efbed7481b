"""Writing files that others read: whole or not at all."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedRandom
from pathlib import Path


@contextmanager
def replacing(path: Path, mode: int = 0o644, *, sync: bool = True) -> Iterator[BufferedRandom]:
    """A file to write into that takes the place of `path` when the block ends without an error.

    For content that is too large to hold in memory, or that is read back before it counts.

    Args:
        path: The file that is replaced.
        mode: Its permissions.
        sync: Whether the new name survives a power cut from here on. Without it the content is
            on the disk, and the name follows with the next `sync_folder` of its folder.
    """
    # In the same folder: a rename across file systems is a copy, which can be seen half done.
    descriptor, temporary = tempfile.mkstemp(
        prefix=f".{path.name}.", suffix=".tmp", dir=path.parent
    )
    try:
        with os.fdopen(descriptor, "w+b") as handle:
            os.fchmod(descriptor, mode)
            yield handle
            handle.flush()
            # Before the rename: otherwise a power cut can leave the new name with no content.
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    # Also after Ctrl-C: no one would ever look for a half-written file.
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    if sync:
        sync_folder(path.parent)


def is_half_written(name: str) -> bool:
    """Whether a file has the name of one that `replacing` was still writing."""
    return name.startswith(".") and name.endswith(".tmp") and name.count(".") >= 3


def write_bytes(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Replace `path` with `content`: temporary file, fsync, rename, fsync of the folder."""
    with replacing(path, mode) as handle:
        handle.write(content)


def write_text(path: Path, content: str, mode: int = 0o644) -> None:
    """Replace `path` with `content` as UTF-8."""
    write_bytes(path, content.encode(), mode)


def write_json(path: Path, document: object, mode: int = 0o644) -> None:
    """Replace `path` with `document` as indented JSON."""
    write_text(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n", mode)


def sync_folder(folder: Path) -> None:
    """Make a rename or creation in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
