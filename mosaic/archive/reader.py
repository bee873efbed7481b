"""An archive read front to back, in bounded memory, trusting nothing in it.

Python's own tar reader follows whatever the headers say, also how much memory to take. Archives of
ours need two kinds of entries only: files, and the extended header of a long name or a large file.
"""

import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from mosaic.errors import ArchiveError

_PIECE = 2**20
_LARGEST_HEADER = 2**16
_KINDS = {
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.LNKTYPE: "a hard link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a named pipe",
    tarfile.DIRTYPE: "a folder",
}


@dataclass(frozen=True)
class Entry:
    """The header of one file."""

    name: str
    size: int


class ArchiveReader:
    """Gives the entries of an archive; each must be read whole before the next."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        # 31 stands for a gzip stream: zlib then also checks its checksum and length at the end.
        self._inflater = zlib.decompressobj(wbits=31)
        self._pending = b""

    def next_entry(self) -> Entry | None:
        """The next file, or None at the end.

        Raises:
            ArchiveError: What follows is anything but a file.
        """
        header = self._exactly(tarfile.BLOCKSIZE)
        if header == bytes(tarfile.BLOCKSIZE):
            self._end()
            return None
        info = _parse(header)
        if info.type != tarfile.XHDTYPE:
            return _as_file(info.name, info.size, info.type)
        if info.size > _LARGEST_HEADER:
            raise ArchiveError(f"the archive has a header of {info.size:,} bytes; it is not ours")
        facts = _records(self._exactly(info.size))
        self._skip_padding(info.size)
        info = _parse(self._exactly(tarfile.BLOCKSIZE))
        size = facts.get("size", str(info.size))
        if not size.isascii() or not size.isdigit():
            raise ArchiveError("the archive's headers are damaged")
        return _as_file(facts.get("path", info.name), int(size), info.type)

    def content(self, entry: Entry) -> Iterator[bytes]:
        """The bytes of the entry that was given last."""
        left = entry.size
        while left:
            piece = self._some(min(left, _PIECE))
            if not piece:
                raise _truncated()
            left -= len(piece)
            yield piece
        self._skip_padding(entry.size)

    def _end(self) -> None:
        """After the last file there is nothing but a little emptiness."""
        if self._exactly(tarfile.BLOCKSIZE).strip(b"\0"):
            raise ArchiveError("the archive has data after its end")
        if self._some(1) or next(self._chunks, b""):
            raise ArchiveError("there is more in the file than the archive; it is not ours")

    def _skip_padding(self, size: int) -> None:
        if self._exactly(-size % tarfile.BLOCKSIZE).strip(b"\0"):
            raise ArchiveError("the archive is damaged between two files")

    def _exactly(self, count: int) -> bytes:
        content = b""
        while len(content) < count:
            piece = self._some(count - len(content))
            if not piece:
                raise _truncated()
            content += piece
        return content

    def _some(self, limit: int) -> bytes:
        """At most `limit` bytes; none at the end of the compressed stream."""
        while True:
            try:
                piece = self._inflater.decompress(self._pending, limit)
            except zlib.error:
                raise ArchiveError(
                    "the file is damaged or not a MOSAIC archive; `mosaic export RUN` writes one"
                ) from None
            self._pending = self._inflater.unconsumed_tail
            if piece:
                return piece
            if self._inflater.eof:
                if self._inflater.unused_data:
                    raise ArchiveError("there is more in the file than the archive; it is not ours")
                return b""
            if not self._pending:
                self._pending = next(self._chunks, b"")
                if not self._pending:
                    raise _truncated()


def _truncated() -> ArchiveError:
    return ArchiveError("the file ends in the middle; copy or export it again")


def _parse(header: bytes) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(header, "utf-8", "strict")
    except (tarfile.HeaderError, UnicodeDecodeError):
        raise ArchiveError("the archive's headers are damaged") from None


def _as_file(name: str, size: int, kind: bytes) -> Entry:
    if kind not in (tarfile.REGTYPE, tarfile.AREGTYPE):
        raise ArchiveError(f"{name!r} is {_KINDS.get(kind, 'no file')}; archives hold files only")
    if size < 0:
        raise ArchiveError("the archive's headers are damaged")
    return Entry(name, size)


def _records(content: bytes) -> dict[str, str]:
    """The `length key=value` lines of an extended header."""
    facts = {}
    try:
        while content:
            length = int(content[: content.index(b" ")])
            line = content[:length]
            key, equals, value = line[line.index(b" ") + 1 : -1].partition(b"=")
            if length <= 0 or not equals or not line.endswith(b"\n"):
                raise ValueError
            facts[key.decode()] = value.decode()
            content = content[length:]
    except ValueError:
        raise ArchiveError("the archive's headers are damaged") from None
    return facts
