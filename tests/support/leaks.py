"""What a test session left behind: processes, shared memory, open files.

Every process that a session starts inherits a mark in its environment, however often it forks and
whatever session or group it moves to, so that one session never answers for another.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

MARK = "TEST_SESSION_MARK"
SHARED_MEMORY = Path("/dev/shm")
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
    """Our shared memory that has appeared since and that no process has open or mapped."""
    fresh = {name for name in os.listdir(SHARED_MEMORY) if name not in before and _ours(name)}
    for pid in _pids():
        if not fresh:
            break
        maps = _read(f"/proc/{pid}/maps").decode(errors="replace")
        held = " ".join(opened(pid))
        fresh = {name for name in fresh if name not in maps and name not in held}
    return sorted(fresh)


def _ours(name: str) -> bool:
    """Whether it belongs to this user; what others leave on the machine is their business."""
    try:
        return (SHARED_MEMORY / name).lstat().st_uid == os.geteuid()
    except OSError:
        return False


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


def opened(pid: int) -> Iterator[str]:
    """The paths of a process's open files."""
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for name in names:
        # One that has been closed since, such as the folder that was just listed.
        with suppress(OSError):
            yield os.readlink(f"/proc/{pid}/fd/{name}")


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
