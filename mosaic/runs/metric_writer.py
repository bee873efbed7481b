"""Writing a run's scalars: one append-only file of 24-byte points a tag. Needs no NumPy.

A full disk costs nothing at first: points wait in memory until it takes them again.
"""

import errno
import os
import struct
import time
import urllib.parse
from pathlib import Path
from types import TracebackType

from mosaic.runs import opening
from mosaic.runs.disk import refuses

FOLDER = "metrics"
SUFFIX = ".points"
POINT = struct.Struct("<qdd")
# Marks a folder that the daemon writes, for a worker that writes no metric files itself.
DAEMONS_MARK = ".by-daemon"
# Some tens of megabytes. A disk that stays full for longer than that costs points, not memory.
_MOST_WAITING = 500_000

Point = tuple[int, float, float]


class MetricWriter:
    """Buffers points and appends them once a second.

    Attributes:
        trouble: Why the disk refuses points right now; empty when it takes them.
        lost: How many points were given up: too many waited, or no file can be made for them.
        waiting: How many points are not on the disk yet.
    """

    def __init__(
        self, run_dir: str | Path, flush_every_s: float = 1.0, *, for_worker: bool = False
    ) -> None:
        """Open a run's metrics for writing.

        Args:
            run_dir: The run's directory.
            flush_every_s: The longest that points are held back.
            for_worker: The daemon writes in place of a worker; any other writer takes over from it.
        """
        self.trouble = ""
        self.lost = 0
        self._folder = Path(run_dir) / FOLDER
        self._folder.mkdir(parents=not for_worker, exist_ok=True)
        mark = self._folder / DAEMONS_MARK
        if not for_worker:
            mark.unlink(missing_ok=True)
        self._flush_every_s = flush_every_s
        self._flushed_at = time.monotonic()
        self._pending: dict[str, list[Point]] = {}
        self.waiting = 0

    def add(self, tag: str, step: int, value: float, wall_time: float | None = None) -> None:
        """Note one value."""
        wall = time.time() if wall_time is None else wall_time
        if self.waiting < _MOST_WAITING:
            self._pending.setdefault(tag, []).append((int(step), float(value), wall))
            self.waiting += 1
        else:
            self.lost += 1
        if time.monotonic() - self._flushed_at >= self._flush_every_s:
            self.flush()

    def flush(self) -> None:
        """Append everything noted so far; what the disk refuses waits for the next time."""
        self._flushed_at = time.monotonic()
        pending, self._pending, self.trouble = self._pending, {}, ""
        for tag, points in pending.items():
            try:
                taken = self._append(tag, points)
            except OSError as error:
                taken = 0 if refuses(error) else len(points)
                self.lost += taken
                self.trouble = error.strerror or str(error)
            if taken < len(points):
                self._pending[tag] = points[taken:]
                self.trouble = self.trouble or os.strerror(errno.ENOSPC)
        self.waiting = sum(map(len, self._pending.values()))

    def _append(self, tag: str, points: list[Point]) -> int:
        """How many points the disk took."""
        content = b"".join(POINT.pack(*point) for point in points)
        place = f"{FOLDER}/{path_of(self._folder, tag).name}"
        flags = os.O_WRONLY | os.O_CREAT
        descriptor = opening.open_regular(self._folder.parent, place, flags)
        try:
            # Over half a point that a full disk has left, so that all later ones stay aligned.
            whole = os.fstat(descriptor).st_size // POINT.size * POINT.size
            return os.pwrite(descriptor, content, whole) // POINT.size
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Append what is left."""
        self.flush()

    def __enter__(self) -> "MetricWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def path_of(folder: Path, tag: str) -> Path:
    """The file of a tag in a metrics folder."""
    return folder / (urllib.parse.quote(tag, safe="") + SUFFIX)


def newest_point(folder: Path, tag: str) -> Point | None:
    """The last whole point of a tag; None when it has none."""
    try:
        descriptor = opening.open_regular(
            folder.parent, f"{folder.name}/{path_of(folder, tag).name}"
        )
        with os.fdopen(descriptor, "rb") as file:
            whole = os.fstat(file.fileno()).st_size // POINT.size
            if not whole:
                return None
            file.seek((whole - 1) * POINT.size)
            step, value, wall = POINT.unpack(file.read(POINT.size))
    except OSError:
        return None
    return step, value, wall
