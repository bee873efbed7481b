"""The daemon's copy of a run directory that an agent on another machine keeps up to date.

Whatever an agent sends stays inside the run directory, and nothing that is the daemon's own can be
replaced: a machine that was taken over can spoil its own run, and no other.
"""

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mosaic.agent.scanning import belongs
from mosaic.config.paths import confine
from mosaic.errors import ConfinementError
from mosaic.runs import opening
from mosaic.runs.metric_writer import DAEMONS_MARK, FOLDER
from mosaic.system import atomic
from mosaic.wire import trainer_pb2 as pb

_LONGEST_PATH = 500


@dataclass(frozen=True)
class _Known:
    """A file that was hashed, and the state that the hash is of."""

    size: int
    modified_ns: int
    inode: int
    sha256: str


class Reception:
    """Takes what an agent sends. For one thread at a time."""

    def __init__(self, run_dir: Path) -> None:
        self._root = run_dir
        self._known: dict[Path, _Known] = {}

    def take(self, piece: pb.AgentPiece) -> int:
        """Store a piece.

        Returns:
            The byte of the file that is expected next; its size once it is complete.

        Raises:
            ConfinementError: The path leads elsewhere, or to a file of the daemon's own.
            OSError: The disk refuses.
        """
        path = self._place(piece.path)
        if piece.path.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
            return 0
        if piece.path.startswith(f"{FOLDER}/"):
            self._leave_curves_to_the_worker()
        path.parent.mkdir(parents=True, exist_ok=True)
        return self._append(path, piece) if piece.appends else self._replace(path, piece)

    def _leave_curves_to_the_worker(self) -> None:
        """Make room for the worker's own curves, which begin where it began."""
        mark = self._root / FOLDER / DAEMONS_MARK
        if opening.is_regular(mark):
            mark.unlink()
            for name in opening.names_in(self._root, FOLDER):
                (self._root / FOLDER / name).unlink(missing_ok=True)

    def remove(self, relative: str) -> None:
        """Remove a file that is gone on the agent's machine."""
        path = self._place(relative)
        with suppress(OSError):  # a folder that is not empty, or nothing at all
            path.rmdir() if relative.endswith("/") else path.unlink()

    def _place(self, relative: str) -> Path:
        parts = relative.removesuffix("/").split("/")
        wrong = any(part in ("", ".", "..") for part in parts) or len(relative) > _LONGEST_PATH
        if wrong or "\0" in relative or not belongs(relative, ended=True):
            raise ConfinementError(relative[:_LONGEST_PATH], self._root)
        return confine(self._root, relative)

    def _append(self, path: Path, piece: pb.AgentPiece) -> int:
        relative = str(path.relative_to(self._root.resolve()))
        flags = os.O_RDWR | os.O_CREAT
        descriptor = opening.open_regular(self._root, relative, flags)
        try:
            size = os.fstat(descriptor).st_size
            if not piece.data or piece.offset > size:
                return size
            end = piece.offset + os.pwrite(descriptor, piece.data, piece.offset)
            # Never cut before the write: who follows a log would begin it again. An answer that
            # was lost makes the agent send the same bytes twice, which changes nothing.
            if piece.size < size:
                os.ftruncate(descriptor, end)
                return end
            return max(size, end)
        finally:
            os.close(descriptor)

    def _replace(self, path: Path, piece: pb.AgentPiece) -> int:
        if self._hash(path, piece.size) == piece.sha256:
            return piece.size
        # A name that the end of a run sweeps, should the rest never come.
        staged = self._root / f".incoming.{piece.sha256[:64]}.tmp"
        if not piece.sha256.isalnum():
            raise ConfinementError(piece.path, self._root)
        have = staged.stat().st_size if staged.exists() else 0
        if piece.offset != have or (not piece.data and piece.size):
            return have
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with os.fdopen(opening.open_regular(self._root, staged.name, flags), "ab") as target:
            target.write(piece.data)
            have = target.tell()
            if have < piece.size:
                return have
            target.flush()
            os.fsync(target.fileno())
        # What was changed while it was read is sent again, from its beginning.
        if self._hash(staged, piece.size) != piece.sha256:
            staged.unlink()
            return 0
        os.replace(staged, path)
        atomic.sync_folder(path.parent)
        return piece.size

    def _hash(self, path: Path, size: int) -> str:
        """The hash of a file, if it has this size."""
        try:
            info = path.lstat()
            if info.st_size != size:
                return ""
            known = self._known.get(path)
            state = (info.st_size, info.st_mtime_ns, info.st_ino)
            if known is not None and (known.size, known.modified_ns, known.inode) == state:
                return known.sha256
            with os.fdopen(opening.open_regular(path.parent, path.name), "rb") as handle:
                digest = hashlib.file_digest(handle, "sha256").hexdigest()
        except OSError:
            return ""
        self._known[path] = _Known(*state, digest)
        return digest
