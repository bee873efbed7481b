"""What a test session left behind: processes, shared memory, open files.

Every process that a session starts inherits a mark in its environment, however often it forks and
whatever session or group it moves to, so that one session never answers for another.
"""

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

MARK = "TEST_SESSION_MARK"
SHARED_MEMORY = Path("/dev/shm")
_OF_A_RUN = re.compile(r"mosaic-\d+-[0-9A-Z]{26}-")
# Helpers of the test runner itself; they end with it.
_HELPERS = (
    b"multiprocessing.forkserver",
    b"multiprocessing.resource_tracker",
    b"QtWebEngineProcess",
    b"Xvfb",
)


def marked_processes(mark: str) -> list[str]:
    """Live processes with a session's mark, as `pid command`."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for pid in _pids():
        command = _read(f"/proc/{pid}/cmdline")
        if pid == os.getpid() or not command or any(name in command for name in _HELPERS):
            continue
        if wanted in _read(f"/proc/{pid}/environ").split(b"\0"):
            found.append(f"{pid} {command.replace(bytes(1), b' ').decode(errors='replace')}")
    return found


def abandoned_memory(before: frozenset[str]) -> list[str]:
    """Our shared memory that has appeared since and that no process has open or mapped.

    Files are compared by inode, never by name: a semaphore is mapped under the temporary name
    that it had while it was being made.
    """
    fresh = {name: number for name, number in _our_memory() if name not in before}
    for pid in _pids():
        if not fresh:
            break
        held = {*_mapped(pid), *_opened_numbers(pid)}
        fresh = {name: number for name, number in fresh.items() if number not in held}
    return sorted(fresh)


def _our_memory() -> Iterator[tuple[str, int]]:
    """Name and number of what belongs to this user; what others leave is their business.

    Pictures of runs are left out: the fixture that made their home looks for them. Another
    session's may have no owner for a while, after a worker was killed and before it is missed.
    """
    for name in os.listdir(SHARED_MEMORY):
        with suppress(OSError):
            found = (SHARED_MEMORY / name).lstat()
            if found.st_uid == os.geteuid() and not _OF_A_RUN.match(name):
                yield name, found.st_ino


def _mapped(pid: int) -> Iterator[int]:
    """The numbers of the files that a process has mapped from shared memory."""
    for line in _read(f"/proc/{pid}/maps").decode(errors="replace").splitlines():
        # Address, rights, offset, device, number, path.
        words = line.split(maxsplit=5)
        if len(words) == 6 and words[5].startswith(f"{SHARED_MEMORY}/"):
            yield int(words[4])


def _opened_numbers(pid: int) -> Iterator[int]:
    """The numbers of the files that a process has open in shared memory."""
    for name, path in _open(pid):
        if path.startswith(f"{SHARED_MEMORY}/"):
            with suppress(OSError):
                yield os.stat(f"/proc/{pid}/fd/{name}").st_ino


def open_files() -> int:
    """How many files this process has open."""
    return len(os.listdir("/proc/self/fd"))


def lasting(look: Callable[[], list[str]], patience_s: float = 10.0) -> list[str]:
    """What is still found after everybody had time to end."""
    deadline = time.monotonic() + patience_s
    while (found := look()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def opened(pid: int) -> list[str]:
    """The paths of a process's open files."""
    return [path for _, path in _open(pid)]


def _open(pid: int) -> Iterator[tuple[str, str]]:
    """The descriptors of a process with their paths."""
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for name in names:
        # One that has been closed since, such as the folder that was just listed.
        with suppress(OSError):
            yield name, os.readlink(f"/proc/{pid}/fd/{name}")


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
