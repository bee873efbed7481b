"""Records a worker could not deliver yet, in a file of the run directory.

The file is a sequence of frames: length, checksum, serialised record. A torn last frame (the worker
was killed while writing) ends the reading and harms nothing before it. A process that writes or
drains a spool holds a lock on it, so that the daemon takes over only what a worker has left behind.
"""

import errno
import fcntl
import os
import struct
import time
import zlib
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

from mosaic.errors import SpoolBusyError
from mosaic.telemetry.records import Kind, Record
from mosaic.telemetry.schema import STORE_FOLDER
from mosaic.wire import trainer_pb2 as pb

_HEAD = struct.Struct("<II")
SPOOL_LIMIT_BYTES = 256 * 1024 * 1024
TAKE_BYTES = 4 * 1024 * 1024
_BLOCK = 1 << 20


def spool_path(run_dir: Path, kind: Kind) -> Path:
    """The file with the undelivered records of one stream."""
    return run_dir / STORE_FOLDER / f"spool-{kind}.bin"


def _framed(record: Record) -> bytes:
    data = record.SerializeToString()
    return _HEAD.pack(len(data), zlib.crc32(data)) + data


def _locked(path: Path, mode: str) -> BinaryIO:
    # Unbuffered: a record is on its way to the disk when it counts as spooled.
    file = cast(BinaryIO, open(path, mode, buffering=0))  # noqa: SIM115  (held until closed)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise SpoolBusyError(f"{path} is in use by another process") from error
    # The last owner removes an empty spool: the file we locked may no longer be the one there.
    if not path.exists() or not os.path.samestat(os.fstat(file.fileno()), path.stat()):
        file.close()
        return _locked(path, mode)
    return file


def _locked_within(path: Path, patience_s: float) -> BinaryIO:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return _locked(path, "a+b")
        except SpoolBusyError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.05)


def _write_all(file: BinaryIO, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[file.write(view) :]


class Spool:
    """An append-only queue of records on disk, drained from the front."""

    def __init__(self, run_dir: Path, kind: Kind, patience_s: float = 0.0) -> None:
        path = spool_path(run_dir, kind)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._type: type[Record] = pb.Step if kind is Kind.STEPS else pb.Episode
        self._file = _locked_within(path, patience_s)
        self._read_at = 0
        # A torn frame at the end would hide everything that is appended after it.
        self._end = self._whole_length()
        os.ftruncate(self._file.fileno(), self._end)

    @property
    def waiting(self) -> bool:
        """Whether records remain to be taken."""
        return self._read_at < self._end

    @property
    def full(self) -> bool:
        """Whether the spool has reached its limit on disk."""
        return self._end >= SPOOL_LIMIT_BYTES

    def append(self, record: Record) -> None:
        """Add a record at the end.

        Raises:
            OSError: The disk did not take it; the spool is as it was before.
        """
        content = _framed(record)
        try:
            if self._file.write(content) < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.ftruncate(self._file.fileno(), self._end)
            self._file.seek(0, os.SEEK_END)
            raise
        self._end += len(content)

    def take(self, limit: int) -> list[Record]:
        """The next records from the front, at most `limit` and about `TAKE_BYTES`."""
        self._file.seek(self._read_at)
        taken: list[Record] = []
        enough = self._read_at + TAKE_BYTES
        while len(taken) < limit and self._read_at < min(self._end, enough):
            record = self._next()
            if record is None:
                break
            taken.append(record)
        self._file.seek(0, os.SEEK_END)
        return taken

    def put_back(self, records: list[Record]) -> int:
        """Put records before those that wait here; how many there are then in all.

        Raises:
            OSError: The disk did not take them; the spool is as it was before.
        """
        if not records and not self.waiting:
            self.clear()
            return 0
        fresh = self._path.with_suffix(".new")
        target = _locked(fresh, "w+b")
        try:
            _write_all(target, b"".join(map(_framed, records)))
            self._file.seek(self._read_at)
            while block := self._file.read(_BLOCK):
                _write_all(target, block)
        except OSError:
            fresh.unlink()
            target.close()
            raise
        # The new file is locked before it gets the name, and the old one until after: at no
        # moment can another process take an unlocked spool. (So `atomic` cannot be used here.)
        os.replace(fresh, self._path)
        self._file.close()
        self._file, self._read_at, self._end = target, 0, target.tell()
        waiting = 0
        while batch := self.take(512):
            waiting += len(batch)
        self._read_at = 0
        return waiting

    def last_seq(self) -> int:
        """The newest sequence number in the spool, 0 when it is empty."""
        start, newest = self._read_at, 0
        while batch := self.take(512):
            newest = batch[-1].seq
        self._read_at = start
        return newest

    def clear(self) -> None:
        """Forget everything: all of it is safely stored elsewhere."""
        os.ftruncate(self._file.fileno(), 0)
        self._read_at = self._end = 0

    def close(self) -> None:
        """Close the file; an empty one is removed."""
        with suppress(OSError):
            os.fsync(self._file.fileno())
        if self._end == 0:
            self._path.unlink(missing_ok=True)
        self._file.close()

    def _next(self) -> Record | None:
        head = self._file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None
        length, checksum = _HEAD.unpack(head)
        data = self._file.read(length)
        if len(data) < length or zlib.crc32(data) != checksum:
            return None
        self._read_at += _HEAD.size + length
        return self._type.FromString(data)

    def _whole_length(self) -> int:
        self._end = os.fstat(self._file.fileno()).st_size
        self._file.seek(0)
        while self._next() is not None:
            pass
        whole, self._read_at = self._read_at, 0
        return whole
