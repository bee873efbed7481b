"""Following a worker's stdout, whatever it prints: bounded work a turn, bounded memory always."""

import ctypes
import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mosaic.runs.opening import open_regular
from mosaic.workers.lifecycle import MAX_LINE

# Small: of a chunk that was not finished within a turn the rest is read again in the next one.
_CHUNK = 1 << 16
# A worker that prints a gigabyte a second may not keep the loop from the other runs.
_CHUNKS_A_TURN = 64
# A hole is worth its system call only if it frees this much.
_LEAST_FREED = 1 << 20
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

    def poll(self) -> Generator[bytes, None, None]:
        """The lines completed since the last call, at most some megabytes of them.

        A caller that has enough closes the generator; the next call begins with the line after
        the last one that was handed out.
        """
        if self._position < 0:
            self._position = self.offset
        self.behind = False
        try:
            # By far the most looks find nothing new, and opening takes three system calls more.
            if self.path.lstat().st_size == self._position:
                return
            descriptor = _open(self.path, os.O_RDONLY)
        except OSError:
            return
        try:
            yield from self._read(descriptor, os.fstat(descriptor).st_size)
        except GeneratorExit:
            self._position, self._partial, self._skipping = self.offset, b"", False
            self.behind = True
            raise
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int, size: int) -> Iterator[bytes]:
        # The script truncated its own log (`> log`, copytruncate): the old offset means nothing.
        if size < self._position:
            self._start_over()
        for _ in range(_CHUNKS_A_TURN):
            chunk = os.pread(descriptor, _CHUNK, self._position)
            if not chunk:
                return
            self._position += len(chunk)
            yield from self._split(chunk)
        self.behind = self._position < size

    def _split(self, chunk: bytes) -> Iterator[bytes]:
        *lines, rest = chunk.split(b"\n")
        end = self._position - len(chunk)
        for line in lines:
            end += len(line) + 1
            self.offset = end
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


def _open(path: Path, flags: int) -> int:
    """A log of a run: `RUN/logs/NAME`, where `logs` too may have been replaced by a link."""
    run, folder, name = str(path).rsplit("/", 2)
    return open_regular(run, f"{folder}/{name}", flags)


def cap_log(path: Path, cap_bytes: int) -> int:
    """Free the disk space of a log's oldest part; every offset stays what it was.

    A hole is punched instead of cutting the file, because the worker's descriptor and our own
    offsets count from its beginning.

    Returns:
        How many bytes at the beginning are gone (they read as zeros).
    """
    try:
        descriptor = _open(path, os.O_RDWR)
    except OSError:
        return 0
    try:
        info = os.fstat(descriptor)
        # Another name for the same file: it may be someone's data, put here to have it destroyed.
        if info.st_nlink > 1:
            return 0
        surplus = info.st_size - cap_bytes
        if surplus <= 0 or info.st_blocks * 512 <= cap_bytes + _LEAST_FREED:
            return max(0, surplus)
        libc = ctypes.CDLL(None, use_errno=True)
        length = ctypes.c_longlong(surplus // 4096 * 4096)
        libc.fallocate(descriptor, _PUNCH_HOLE_KEEP_SIZE, ctypes.c_longlong(0), length)
    finally:
        os.close(descriptor)
    return surplus
