"""Who owns a lane, and the removal of lanes whose owner has died."""

import errno
import fcntl
import os
import re
from contextlib import ExitStack, suppress
from pathlib import Path

from mosaic.errors import LaneTakenError
from mosaic.fastlane.identity import ProcessIdentity, is_running
from mosaic.fastlane.segment import (
    MAGIC,
    PAGE,
    Control,
    lane_folders,
    lane_prefix,
    open_owned,
    owner_prefix,
)

# Strict, because the temporary folder is swept too and other programs keep files there.
_LANE_FILE = re.compile(r"(mosaic-\d+-[0-9A-Z]{26}-\d+)(\.\d+)?")


def lock_control_page(path: str) -> int:
    """Open (or create) and lock a control page.

    Returns:
        The descriptor that holds the lock until it is closed.

    Raises:
        LaneTakenError: Another live process holds it.
    """
    while True:
        fd = open_owned(path, os.O_RDWR | os.O_CREAT)
        try:
            _lock(fd, path)
            # Its owner, or a sweep, may have removed the file between our open and our lock. Then
            # the lock is on a file without a name, and another process could lock the new one.
            if _is_same_file(fd, path):
                # Reserved now: touching a page that a full /dev/shm cannot provide is fatal.
                os.posix_fallocate(fd, 0, PAGE)
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def _lock(fd: int, path: str) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN):
            raise LaneTakenError(f"another process writes {path}") from None
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP):
            raise
        # Some network file systems have no locks: the owner written in the page decides.
        owner = _owner(fd)
        if owner is not None and is_running(owner):
            raise LaneTakenError(f"process {owner.pid} writes {path}") from None


def _owner(fd: int) -> ProcessIdentity | None:
    words = memoryview(os.pread(fd, 40, 0).ljust(40, b"\0")).cast("Q")
    if words[Control.MAGIC] != MAGIC:
        return None
    return ProcessIdentity(words[Control.PID], words[Control.START_TICKS], words[Control.BOOT])


def _is_same_file(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def remove_stores(folders: list[Path], name: str) -> int:
    """Remove the frame stores of a lane from all folders; only its owner may call this.

    Returns:
        How many files were removed.
    """
    removed = 0
    for folder in folders:
        for entry in _names_in(folder):
            if entry.startswith(f"{name}."):
                with suppress(OSError):
                    os.unlink(folder / entry)
                    removed += 1
    return removed


def sweep_leftovers(
    run_id: str | None = None, *, run_dir: str | os.PathLike[str] | None = None
) -> int:
    """Remove the shared files of writers that died without doing it themselves.

    Only lanes without an owner are touched: the lock of their control page is free, and the
    process named in it is gone. Files of other users are ignored.

    Args:
        run_id: Look only at this run; by default at every run of the calling user.
        run_dir: Also look into this run's directory, where frames go when memory is full.

    Returns:
        How many files were removed.
    """
    prefix = lane_prefix(run_id) if run_id is not None else owner_prefix()
    folders = lane_folders(run_dir)
    names = (name for folder in folders for name in _names_in(folder) if name.startswith(prefix))
    lanes = {match[1] for match in map(_LANE_FILE.fullmatch, names) if match}
    return sum(_sweep_lane(folders, lane) for lane in sorted(lanes))


def _names_in(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _sweep_lane(folders: list[Path], name: str) -> int:
    """Remove all files of one lane, under the lock of its control page or pages."""
    present = [folder for folder in folders if (folder / name).exists()]
    # A store without any control page is swept under the lock of one made for the purpose.
    pages = [str(folder / name) for folder in present or folders[:1]]
    with ExitStack() as locks:
        for page in pages:
            try:
                fd = lock_control_page(page)
            except (LaneTakenError, OSError):
                return 0
            locks.callback(os.close, fd)
            # On a file system without locks, having the lock proves nothing.
            owner = _owner(fd)
            if owner is not None and is_running(owner):
                return 0
        removed = remove_stores(folders, name)
        for page in pages:
            os.unlink(page)
        return removed + len(present)
