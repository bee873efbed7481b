"""Keeping the daemon's copy of a run directory equal to ours.

Files that grow are sent by their new end, all others whole and named by their hash, so that a
connection that breaks costs nothing that was already sent. The order is part of the promise: a line
of the log that speaks of a file follows that file, and the exit record follows everything.
"""

import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from mosaic.agent.scanning import LOGS, Found, belongs, grows, is_record, look
from mosaic.runs import opening

# A third of what the daemon takes in one message.
_MOST_BYTES = 1 << 20
_MOST_PIECES = 64
_SMALL = 1 << 16

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Piece:
    """A part of a file on its way; see `AgentPiece`."""

    path: str
    offset: int
    data: bytes
    appends: bool
    sha256: str = ""
    size: int = 0


# Sends pieces and tells, for each, the byte that is expected next.
Send = Callable[[list[Piece], list[str]], list[int]]


@dataclass
class Mirror:
    """What the daemon has of one run directory.

    Attributes:
        root: The run directory on this machine.
        send: Delivers pieces; raises when the daemon does not answer.
        told: How far the daemon has each growing file.
        whole: Which state of every other file the daemon has.
    """

    root: Path
    send: Send
    told: dict[str, int] = field(default_factory=dict)
    whole: dict[str, Found] = field(default_factory=dict)

    def turn(self, ended: bool) -> bool:
        """Send what is new.

        Args:
            ended: The exit record was there before this call, so nothing changes any more.

        Returns:
            Whether anything was sent.
        """
        # First: what the logs say until here speaks only of files that this look finds.
        sizes = {path: found.size for path, found in look(self.root).items() if grows(path)}
        found = {path: item for path, item in look(self.root).items() if belongs(path, ended)}
        moved = False
        for path, item in found.items():
            last = is_record(path, "exit")
            if not last and not grows(path) and self.whole.get(path) != item:
                self._send_whole(path, item)
                moved = True
        growing = {path: sizes.get(path, 0) for path in found if grows(path)}
        # The logs last: what they say about a curve is then in that curve.
        logs = {path: growing.pop(path) for path in list(growing) if path.startswith(LOGS)}
        moved = self._send_ends(growing) or moved
        moved = self._send_ends(logs) or moved
        gone = [path for path in (*self.whole, *self.told) if path not in found]
        if gone:
            self.send([], gone)
            for path in gone:
                self.whole.pop(path, None)
                self.told.pop(path, None)
        if ended:
            self._finish(found)
        return moved or bool(gone)

    def _finish(self, found: dict[str, Found]) -> None:
        """Prove that both copies are equal, then hand over the exit record."""
        for path, item in found.items():
            # A log may have had its oldest part freed here; its size has been compared already.
            if grows(path) and not path.startswith(LOGS):
                self._send_whole(path, item)
        for path, item in found.items():
            if is_record(path, "exit"):
                self._send_whole(path, item)

    # ------------------------------------------------------------ files that grow

    def _send_ends(self, sizes: dict[str, int]) -> bool:
        unknown = [path for path in sizes if path not in self.told]
        for start in range(0, len(unknown), _MOST_PIECES):
            paths = unknown[start : start + _MOST_PIECES]
            taken = self.send([Piece(path, 0, b"", appends=True) for path in paths], [])
            self.told.update(zip(paths, taken, strict=True))
        moved = False
        while pieces := list(self._ends(sizes)):
            taken = self.send(pieces, [])
            progress = False
            for piece, at in zip(pieces, taken, strict=True):
                progress = progress or at != self.told[piece.path]
                self.told[piece.path] = at
            moved = True
            if not progress:
                break  # the daemon has reasons of its own; it is asked again in the next turn
        return moved

    def _ends(self, sizes: dict[str, int]) -> Iterator[Piece]:
        count, space = 0, _MOST_BYTES
        for path, size in sizes.items():
            at = self.told[path]
            # Cut back by the worker: the daemon's copy is cut back too, then grows again.
            at = 0 if size < at else at
            if count == _MOST_PIECES or space <= 0:
                return
            if size == self.told[path]:
                continue
            data = self._read(path, at, min(space, size - at))
            yield Piece(path, at, data, appends=True, size=size)
            count, space = count + 1, space - len(data)

    def _read(self, path: str, offset: int, count: int) -> bytes:
        try:
            descriptor = opening.open_regular(self.root, path)
        except OSError:
            return b""
        try:
            return os.pread(descriptor, count, offset)
        finally:
            os.close(descriptor)

    # ------------------------------------------------------------ files that are replaced

    def _send_whole(self, path: str, item: Found) -> None:
        if path.endswith("/"):
            self.send([Piece(path, 0, b"", appends=False)], [])
            self.whole[path] = item
            return
        try:
            with open(opening.open_regular(self.root, path), "rb") as handle:
                digest = hashlib.file_digest(handle, "sha256").hexdigest()
                arrived = self._send_content(path, handle, digest)
        except OSError as error:
            # Removed or replaced while it was sent: the next look finds what is there then.
            log.info("%s was not sent: %s", path, error)
            return
        if arrived:
            self.whole[path] = item

    def _send_content(self, path: str, handle: BinaryIO, digest: str) -> bool:
        """Send what the daemon does not have; False when the file changed on the way."""
        size = handle.seek(0, os.SEEK_END)
        at = 0
        # A small file is quicker sent than asked about.
        if size > _SMALL:
            (at,) = self.send([Piece(path, 0, b"", False, digest, size)], [])
        while at < size or not size:
            handle.seek(at)
            data = handle.read(min(_MOST_BYTES, size - at))
            (taken,) = self.send([Piece(path, at, data, False, digest, size)], [])
            if taken == size:
                return True
            if taken <= at:
                return False
            at = taken
        return True
