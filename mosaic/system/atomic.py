"""Writing files that others read: whole or not at all."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any


def write_bytes(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Replace `path` with `content`: temporary file, fsync, rename, fsync of the folder."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(content)
            handle.flush()
            os.fchmod(handle.fileno(), mode)
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except FileNotFoundError:
            pass
        raise
    sync_folder(path.parent)


def write_text(path: Path, content: str, mode: int = 0o644) -> None:
    """Replace `path` with `content` as UTF-8."""
    write_bytes(path, content.encode(), mode)


def write_json(path: Path, document: Any, mode: int = 0o644) -> None:
    """Replace `path` with `document` as indented JSON."""
    write_text(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n", mode)


def sync_folder(folder: Path) -> None:
    """Make a rename or creation in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
