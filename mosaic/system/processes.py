"""Evidence about processes, from `/proc` alone: never a pid without its start time and boot."""

import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

BOOT_ID_VARIABLE = "MOSAIC_BOOT_ID_FILE"
MARKER = "MOSAIC_RUN_ID"
_RUN_DIR = b"MOSAIC_RUN_DIR"
# 52 numbers and a name of at most 64 bytes.
_LONGEST_STAT = 4096


@dataclass(frozen=True)
class ProcessKey:
    """What makes a process the same process."""

    pid: int
    start_time: int
    boot_id: str


def boot_id() -> str:
    """The identity of this boot (the file can be moved, so that a reboot can be rehearsed)."""
    rehearsed = os.environ.get(BOOT_ID_VARIABLE)
    return Path(rehearsed).read_text().strip() if rehearsed else _boot_id()


@cache
def _boot_id() -> str:
    # Read once: a process does not outlive its boot, and every look at a run asks.
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def stat_fields(pid: int) -> list[str] | None:
    """The fields of `/proc/PID/stat` from the state on; None when the process is gone.

    The first is field 3 of proc(5). The command name before it may hold spaces and brackets, so
    everything after the last bracket counts.
    """
    try:
        # Without the layers of a Python file: every look at a run asks for this.
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(descriptor, _LONGEST_STAT).decode(errors="replace")
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return text[text.rindex(")") + 2 :].split()


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None when it is gone or a zombie."""
    fields = stat_fields(pid)
    if fields is None or fields[0] in ("Z", "X"):
        return None
    return int(fields[19])


def process_state(pid: int) -> str:
    """The one-letter state of a process, empty when it is gone."""
    fields = stat_fields(pid)
    return fields[0] if fields else ""


def parent_of(pid: int) -> int:
    """The parent of a process, 0 when it is gone."""
    fields = stat_fields(pid)
    return int(fields[1]) if fields else 0


def cpu_ticks(pid: int) -> int:
    """The CPU time a process has used, in clock ticks; 0 when it is gone."""
    fields = stat_fields(pid)
    return int(fields[11]) + int(fields[12]) if fields else 0


def is_alive(key: ProcessKey) -> bool:
    """Whether exactly this process runs."""
    return key.boot_id == boot_id() and start_time(key.pid) == key.start_time


def has_marker(pid: int, run_id: str, run_dir: Path | None = None) -> bool:
    """Whether a process carries the run's marker, and that of its directory, where one is given."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    here = run_dir is None or b"=".join((_RUN_DIR, os.fsencode(run_dir))) in environment
    return here and f"{MARKER}={run_id}".encode() in environment


def marked_processes(
    run_id: str, besides: frozenset[int] = frozenset(), run_dir: Path | None = None
) -> list[int]:
    """Every live process that carries the run's marker, whatever group it moved to.

    Args:
        run_id: The run.
        besides: Processes that do not count.
        run_dir: Only those with this directory. A later attempt of the run may be at work on the
            same machine, for another node that shares it.
    """
    return [
        pid
        for pid in _all_pids()
        if pid not in besides and has_marker(pid, run_id, run_dir) and start_time(pid) is not None
    ]


def writing_to(paths: Iterable[Path]) -> list[int]:
    """Every live process whose standard output or error is one of these files.

    A process that has cleared its environment and left its session still prints where its parent
    did, unless it took care of that too.
    """
    files = {mark for path in paths if (mark := _file_mark(path)) is not None}
    return [
        pid
        for pid in _all_pids()
        if any(_file_mark(Path(f"/proc/{pid}/fd/{number}")) in files for number in (1, 2))
        and start_time(pid) is not None
    ]


def _file_mark(path: Path) -> tuple[int, int] | None:
    try:
        info = path.stat()
    except OSError:
        return None
    return info.st_dev, info.st_ino


def group_members(group: int) -> list[int]:
    """Every live process of a process group."""
    members = []
    for pid in _all_pids():
        fields = stat_fields(pid)
        if fields and fields[0] not in ("Z", "X") and int(fields[2]) == group:
            members.append(pid)
    return members


def signal_group(group: int, number: int) -> bool:
    """Signal a process group; False when no process is left in it."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


def kill_marked(
    run_id: str, besides: frozenset[int] = frozenset(), run_dir: Path | None = None
) -> int:
    """SIGKILL every process that `marked_processes` finds; how many there were."""
    victims = marked_processes(run_id, besides, run_dir)
    kill_all(victims)
    return len(victims)


def kill_all(pids: Iterable[int]) -> None:
    """SIGKILL processes, of which some may be gone already."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]
