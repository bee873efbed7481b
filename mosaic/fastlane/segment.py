"""Layout and names of the shared files.

A lane is one stream of frames: one writer, any number of readers. It consists of two files.

The *control page* `mosaic-<uid>-<run id>-<lane>` has a fixed size, so it never moves while its
writer lives: who writes, where the frames are, which one is newest, when a reader last looked.
The writer holds an exclusive `flock` on it for as long as it lives; the kernel drops the lock
with the process, whatever kills it.

The *frame store* `<control page>.<generation>` holds a few slots. It is never resized: larger
frames get a new store under the next generation. Each slot carries a sequence number that is
odd while the slot is being written, so a reader can tell a whole frame from a torn one.
"""

import mmap
import os
import struct
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mosaic.runs.ids import check_run_id

PAGE = 4096
MAGIC = int.from_bytes(b"MOSAICFL", "little")
VERSION = 1

# The newest frame, the one before it that a slow reader may still be copying, and the next.
SLOTS = 3
SLOT_HEADER = 128
SLOT_FIELDS = struct.Struct("@QIIdddQQ")
SLOT_FIELDS_AT = 8

# Ten stamps fit into the time after which a writer stops rendering, so a busy reader may miss some.
READER_EXPIRES_NS = 1_000_000_000
READER_STAMP_NS = 100_000_000

FLAG_CAPPED = 1

DIRECTORY_VARIABLE = "MOSAIC_FASTLANE_DIR"
FALLBACK_FOLDER = "fastlane"


class Control:
    """Word and byte offsets in a control page."""

    MAGIC, VERSION, PID, START_TICKS, BOOT = range(5)
    GENERATION, NEWEST, READER_STAMP, CLOSED, NOTICE_LENGTH, STORE_LENGTH = range(5, 11)
    NOTICE_AT, NOTICE_SIZE = 512, 1024
    STORE_AT, STORE_SIZE = 1536, 2560


class Store:
    """Word offsets in the first page of a frame store."""

    MAGIC, VERSION, GENERATION, PID, START_TICKS, SLOTS, CAPACITY = range(7)


@dataclass(frozen=True, slots=True)
class StoreShape:
    """How many slots a frame store has and how many bytes of pixels fit into each."""

    slots: int
    capacity: int

    @property
    def stride(self) -> int:
        """Distance in bytes from one slot to the next, kept a multiple of a cache line."""
        return SLOT_HEADER + -(-self.capacity // 64) * 64

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return -(-(PAGE + self.slots * self.stride) // PAGE) * PAGE

    def slot_at(self, index: int) -> int:
        """Offset of the slot that holds the frame of this index."""
        return PAGE + (index % self.slots) * self.stride


_fence_lock = threading.Lock()


def fence() -> None:
    """Keep memory accesses before the call before those after it, on every processor.

    x86 needs nothing here, ARM does, and Python offers no barrier. Releasing a lock keeps what
    came before from sinking below it, acquiring keeps what follows from rising above it; only
    a release followed by an acquire keeps both, hence the two rounds.
    """
    with _fence_lock:
        pass
    with _fence_lock:
        pass


def lane_prefix(run_id: str) -> str:
    """Return the start of the names of all files of a run.

    Raises:
        InvalidRunIdError: If the id is not a ULID, and so could lead out of the folder.
    """
    return f"{owner_prefix()}{check_run_id(run_id)}-"


def owner_prefix() -> str:
    """Return the start of the names of all files of the calling user."""
    return f"mosaic-{os.geteuid()}-"


def lane_folders(run_dir: str | os.PathLike[str] | None) -> list[Path]:
    """Return where a run's lanes may be, best place first.

    Shared memory first; the run directory when the machine has none or it is full; the
    temporary folder only when there is no run directory either.
    """
    folders = [Path(os.environ.get(DIRECTORY_VARIABLE) or "/dev/shm")]
    if run_dir is not None:
        folders.append(Path(run_dir) / FALLBACK_FOLDER)
    else:
        folders.append(Path(tempfile.gettempdir()))
    return folders


def find_lanes(run_id: str, folders: list[Path]) -> dict[int, Path]:
    """Return the control page of each lane that a run has now, by the lane's number."""
    prefix = lane_prefix(run_id)
    found: dict[int, Path] = {}
    # Reversed, so that the best folder wins when a lane is in two of them.
    for folder in reversed(folders):
        with suppress(OSError):
            for name in os.listdir(folder):
                number = name.removeprefix(prefix)
                if number != name and number.isdecimal():
                    found[int(number)] = folder / name
    return found


def map_words(fd: int, size: int, *, writable: bool) -> tuple[mmap.mmap, memoryview]:
    """Map a file and return the mapping with a view of it as 64-bit words.

    A word is stored and loaded by one machine instruction, which the protocol relies on.
    """
    access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
    mapping = mmap.mmap(fd, size, access=access)
    return mapping, memoryview(mapping).cast("Q")


def open_owned(path: str | os.PathLike[str], flags: int) -> int:
    """Open a regular file that belongs to the calling user, never through a link.

    Raises:
        PermissionError: If the file belongs to another user.
    """
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    owner = os.fstat(fd).st_uid
    if owner != os.geteuid():
        os.close(fd)
        raise PermissionError(f"{os.fspath(path)} belongs to user {owner}, not to us")
    return fd
