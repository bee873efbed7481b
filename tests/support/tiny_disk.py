"""A file system of a few megabytes that a test can fill and empty."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class TinyDisk:
    """A mounted folder whose free space a test decides about."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Leave not a byte."""
        with open(self._ballast, "ab", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1 << 8, 1):
                while True:
                    try:
                        whole = file.write(b"x" * size) == size
                    except OSError:
                        break
                    if not whole:
                        break

    def empty(self) -> None:
        """Give the space back."""
        self._ballast.unlink()


@contextmanager
def tiny_disk(folder: Path) -> Iterator[TinyDisk]:
    """A disk of 64 MB in a folder; skips the test without the rights of root, which it takes."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system is not allowed here")
    try:
        yield TinyDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
