"""What a supervisor wrote down about its worker: its processes, its machine and its job."""

from typing import TypeGuard

from mosaic.runs import opening
from mosaic.runs.directory import RunDirectory
from mosaic.system.processes import ProcessKey

# The most that Linux can be configured to.
_LARGEST_PID = 2**22 + 1
_LONGEST_NAME = 100


def process_keys(directory: RunDirectory) -> list[ProcessKey]:
    """The worker and its supervisor, as the supervisor wrote them down."""
    document = opening.read_document(directory.supervisor) or {}
    boot, keys = document.get("boot_id"), []
    for role in ("", "supervisor_"):
        pid, started = document.get(f"{role}pid"), document.get(f"{role}start_time")
        if not (isinstance(boot, str) and _is_pid(pid) and isinstance(started, int)):
            return []
        keys.append(ProcessKey(pid, started, boot))
    return keys


def process_place(directory: RunDirectory) -> tuple[str, str]:
    """The machine and the job of a worker that is not on this machine; empty on this one."""
    document = opening.read_document(directory.supervisor) or {}
    return _name(document.get("host")), _name(document.get("job"))


def _name(value: object) -> str:
    """A name from a file that its worker could have written: short, and text that can be sent."""
    if not isinstance(value, str):
        return ""
    return value[:_LONGEST_NAME].encode(errors="replace").decode()


def _is_pid(value: object) -> TypeGuard[int]:
    """Whether a number can be a process: what is larger no system call takes."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < _LARGEST_PID
