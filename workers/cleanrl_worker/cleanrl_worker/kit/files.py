"""Files that are either whole or not there: temporary file, fsync, rename, checksum."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

CHECKSUM_SUFFIX = ".sha256"


def write_checked(path: Path, write: Callable[[BinaryIO], None]) -> str:
    """Write a file whole, with its SHA-256 in a file beside it.

    The checksum is in place before the file appears under its name, so a reader that finds
    the file can always check it.

    Args:
        path: where the file goes.
        write: called with the open temporary file.

    Returns:
        The SHA-256 of the content, as hex.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb+") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        _write_whole(checksum_path(path), f"{digest}  {path.name}\n".encode())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)
    return digest


def checksum_path(path: Path) -> Path:
    """Where a file's checksum is kept."""
    return path.with_name(path.name + CHECKSUM_SUFFIX)


def checksum_problem(path: Path) -> str | None:
    """Compare a file with its recorded checksum.

    Returns:
        ``None`` when they agree, otherwise what is wrong.
    """
    try:
        recorded = checksum_path(path).read_text(encoding="utf-8").split()[0]
    except (OSError, IndexError, UnicodeDecodeError):
        return f"{path.name} has no readable checksum beside it ({checksum_path(path).name})"
    with path.open("rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if actual != recorded:
        return (
            f"{path.name} does not match its checksum "
            f"(recorded {recorded[:12]}…, found {actual[:12]}…)"
        )
    return None


def remove_checked(path: Path) -> None:
    """Remove a file and its checksum; a missing one is fine."""
    path.unlink(missing_ok=True)
    checksum_path(path).unlink(missing_ok=True)


def _write_whole(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
