"""Following a worker's stdout, whatever it prints: bounded work a turn, bounded memory always."""

import ctypes
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mosaic.workers.lifecycle import MAX_LINE

_CHUNK = 1 << 20
# A worker that prints a gigabyte a second may not keep the loop from the other runs.
_CHUNKS_A_TURN = 8
_PUNCH_HOLE_KEEP_SIZE = 0x03


@dataclass
class LineTailer:
    """Yields whole lines from `offset` on; a line longer than the limit is skipped unread.

    Attributes:
        offset: Byte after the last whole line handed out; where a new daemon continues.
        oversized: How many lines were too long to be kept.
        behind: The last call left text unread because it was too much for one turn.
    """

    path: Path
    offset: int = 0
    oversized: int = 0
    behind: bool = False
    _partial: bytes = b""
    _skipping: bool = False
    _position: int = field(default=-1)

    def poll(self) -> Iterator[bytes]:
        """The lines completed since the last call, at most some megabytes of them."""
        if self._position < 0:
            self._position = self.offset
        self.behind = False
        try:
            size = os.stat(self.path).st_size
        except OSError:
            return
        # The script truncated its own log (`> log`, copytruncate): the old offset means nothing.
        if size < self._position:
            self._start_over()
        if size == self._position:
            return
        with open(self.path, "rb", buffering=0) as handle:
            handle.seek(self._position)
            for _ in range(_CHUNKS_A_TURN):
                chunk = handle.read(_CHUNK)
                if not chunk:
                    return
                self._position += len(chunk)
                yield from self._split(chunk)
            self.behind = self._position < size

    def _split(self, chunk: bytes) -> Iterator[bytes]:
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            if self._skipping:
                self._skipping = False
                self.oversized += 1
            elif len(self._partial) + len(line) <= MAX_LINE:
                yield self._partial + line
            else:
                self.oversized += 1
            self._partial = b""
        if self._skipping or len(self._partial) + len(rest) > MAX_LINE:
            self._partial, self._skipping = b"", True
        else:
            self._partial += rest
        self.offset = self._position - len(self._partial)

    def _start_over(self) -> None:
        self._position, self._partial, self._skipping, self.offset = 0, b"", False, 0


def cap_log(path: Path, cap_bytes: int) -> int:
    """Free the disk space of a log's oldest part; every offset stays what it was.

    A hole is punched instead of cutting the file, because the worker's descriptor and our own
    offsets count from its beginning.

    Returns:
        How many bytes at the beginning are gone (they read as zeros).
    """
    try:
        info = os.stat(path)
    except OSError:
        return 0
    surplus = info.st_size - cap_bytes
    if surplus <= 0 or info.st_blocks * 512 <= cap_bytes + _CHUNK:
        return max(0, surplus)
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        length = ctypes.c_longlong(surplus // 4096 * 4096)
        libc.fallocate(descriptor, _PUNCH_HOLE_KEEP_SIZE, ctypes.c_longlong(0), length)
    finally:
        os.close(descriptor)
    return surplus
