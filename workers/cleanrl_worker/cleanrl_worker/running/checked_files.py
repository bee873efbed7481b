"""Files that can be checked: written whole, with their SHA-256 in a file beside them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from mosaic.system.atomic import replacing

CHECKSUM_SUFFIX = ".sha256"


def write_checked(path: Path, write: Callable[[BinaryIO], object]) -> str:
    """Write a file whole, with its SHA-256 in a file beside it.

    Args:
        path: Where the file goes; its folder is made if it is missing.
        write: Called with the open temporary file.

    Returns:
        The SHA-256 of the content, as hex.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Streamed, not built in memory: a full state with its replay memory may be gigabytes.
    with replacing(path) as file:
        write(file)
        # Read back from the file: what was hashed is what the system has taken over.
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        # The checksum before the file gets its name: a reader that finds the file can always
        # check it. A crash between the two leaves a checksum alone, which no reader looks at.
        # One sync of the folder, after the file's own rename, makes both names last.
        with replacing(checksum_path(path), sync=False) as checksum:
            checksum.write(f"{digest}  {path.name}\n".encode())
    return digest


def checksum_path(path: Path) -> Path:
    """Where a file's checksum is kept."""
    return path.with_name(path.name + CHECKSUM_SUFFIX)


def recorded_checksum(path: Path) -> str | None:
    """The checksum that was written with a file; None when there is none that can be read."""
    try:
        return checksum_path(path).read_text(encoding="utf-8").split()[0]
    except (OSError, IndexError, UnicodeDecodeError):
        return None


def checksum_problem(path: Path) -> str | None:
    """Compare a file with its recorded checksum.

    Returns:
        None when they agree, otherwise what is wrong.
    """
    recorded = recorded_checksum(path)
    if recorded is None:
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
    # The file first: the other order would leave a file that looks damaged.
    path.unlink(missing_ok=True)
    checksum_path(path).unlink(missing_ok=True)
