"""The shim between daemon and worker: starts it, outlives the daemon, writes down how it ended.

Standard library only, and run by path, so that it starts in milliseconds. It leads a session of
its own, adopts every descendant of the worker that loses its parent (sub-reaper), and holds a
lock for as long as it lives, so that a run can never have two of them. The order of its writes is
the protocol: `supervisor.json` before the worker's first instruction, `exit.json` only when the
worker and all it left behind are dead. A worker that says that it can is started again after a
kill, a few times, in the same run.

The worker's environment arrives on standard input and is never written anywhere. On the node of a
cluster it arrives in a file that is removed when it has been read. On every machine but the
daemon's own, `remote.py` beside this file keeps a lease and obeys the daemon's signals.
"""

import ctypes
import errno
import fcntl
import importlib
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import NoReturn, NotRequired, Protocol, TypedDict, TypeVar

ALREADY_SUPERVISED = 75
EXEC_FAILED = 127
_PR_SET_CHILD_SUBREAPER = 36
# What a worker leaves behind usually ends with it, such as the helpers of a data loader.
_NATURAL_END_S = 0.5
_FULL_DISK_RETRY_S = 1.0
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)

_LOGS = ("stdout.log", "stderr.log")
_LOG_MODE = os.O_WRONLY | os.O_CREAT | os.O_APPEND
# As in `mosaic.system.shortage`: what passes by itself. Nothing of MOSAIC can be imported here.
_TRANSIENT = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOSPC, errno.EDQUOT}
)

Result = TypeVar("Result")


class Spec(TypedDict):
    """What a supervisor is started with.

    Attributes:
        env: All of the worker's variables.
        restarts: How often a worker that is killed is started again.
        attempt: Which attempt of the run this is.
        site: Where it runs; empty on the daemon's own machine.
        from_node: Variables whose value only the node knows.
        job: Its name there, where the daemon knows it before.
    """

    run_id: str
    run_dir: str
    argv: list[str]
    env: dict[str, str]
    cwd: str
    boot_id: str
    restarts: int
    attempt: int
    site: str
    from_node: NotRequired[list[str]]
    job: NotRequired[str]


class Remote(Protocol):
    """What `remote.py` does for a supervisor on the node of a cluster.

    Attributes:
        warned: The engine has said that its time limit is near.
    """

    warned: bool

    def begin(self) -> bool:
        """Show that the supervisor lives; False when a later attempt has begun already."""

    def identity(self) -> dict[str, object]:
        """What its record says besides."""

    def watch(self, group: int) -> None:
        """Send the daemon's signals to this group."""

    def rest(self) -> None:
        """The worker has ended; end what was started beside it."""

    def end(self) -> None:
        """Stop looking for signals."""


def supervise(
    spec: Spec, become_worker: Callable[[Spec], NoReturn], remote: "Remote | None" = None
) -> int:
    """Start the worker of `spec`, wait for its end, write it down.

    Args:
        spec: What to start.
        become_worker: Turns the forked child into the worker; never returns.
        remote: What is needed besides where the daemon cannot see the processes.

    Returns:
        The exit status of the supervisor itself.
    """
    run_dir, suffix = spec["run_dir"], _suffix(spec)
    lock_path = os.path.join(run_dir, f"supervisor{suffix}.lock")
    lock = _patiently(lambda: os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC))
    # The lock says that no other supervisor lives, the files that none has lived. A daemon that
    # gave this run up has written `exit.json` under the same lock: then nothing is started.
    if not _take(lock) or _has_begun_or_ended(run_dir, suffix):
        return ALREADY_SUPERVISED
    if remote is not None and not remote.begin():
        return ALREADY_SUPERVISED
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # The kernel's counter is for the whole machine; only its growth during this run says anything.
    memory_kills = _memory_kills()
    stragglers, restarts = 0, 0
    while True:
        pid, failed = _start(spec, become_worker, lock, remote)
        if remote is not None:
            remote.watch(pid)
        status, usage = _wait_for(pid)
        if remote is not None:
            remote.rest()
        stragglers += _end_descendants(pid)
        out_of_memory = os.WIFSIGNALED(status) and _memory_kills() > memory_kills
        if out_of_memory or restarts == spec.get("restarts", 0) or not _was_killed(status, spec):
            break
        failed()
        restarts += 1
        spec["env"]["MOSAIC_RESTARTS"] = str(restarts)
    if remote is not None:
        remote.end()
    end = {
        "run_id": spec["run_id"],
        "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
        "finished_at": time.time(),
        "finished_mono": time.monotonic(),
        "stragglers": stragglers,
        "restarts": restarts,
        "out_of_memory": out_of_memory,
        "time_limit_near": remote is not None and remote.warned,
        # Read last: a warm worker and its children keep their ends open while they live.
        "error": failed(),
        "usage": {
            "user_s": usage.ru_utime,
            "system_s": usage.ru_stime,
            "max_rss_mb": usage.ru_maxrss // 1024,
        },
    }
    _write_patiently(os.path.join(run_dir, f"exit{suffix}.json"), end)
    return 0


def _suffix(spec: Spec) -> str:
    """What tells the records of an attempt from those of the ones before."""
    attempt = spec.get("attempt", 1)
    return f"-{attempt}" if attempt > 1 else ""


def exec_worker(spec: Spec) -> NoReturn:
    """Become the worker by starting its program."""
    os.execvpe(spec["argv"][0], spec["argv"], spec["env"])


def _was_killed(status: int, spec: Spec) -> bool:
    """Whether a worker died of a signal that was not meant to end its run."""
    if not os.WIFSIGNALED(status) or os.WTERMSIG(status) in _IGNORED:
        return False
    return not _stop_asked(spec)


def _stop_asked(spec: Spec) -> bool:
    return os.path.exists(os.path.join(spec["run_dir"], f"stop-asked{_suffix(spec)}"))


def _has_begun_or_ended(run_dir: str, suffix: str) -> bool:
    names = (f"supervisor{suffix}.json", f"exit{suffix}.json")
    return any(os.path.exists(os.path.join(run_dir, name)) for name in names)


def _take(lock: int) -> bool:
    """Lock; a daemon that looks whether the lock is held may hold it itself for a moment."""
    for _ in range(20):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(0.01)
        else:
            return True
    return False


def _start(
    spec: Spec,
    become_worker: Callable[[Spec], NoReturn],
    lock: int,
    remote: "Remote | None",
) -> tuple[int, Callable[[], str]]:
    """Fork the worker, held back until `supervisor.json` is on disk."""
    _create_logs(spec["run_dir"])
    go_read, go_write = _patiently(os.pipe)
    error_read, error_write = _patiently(os.pipe)
    pid = _patiently(os.fork)
    if pid == 0:
        # Closing at `exec` is not enough: a warm worker never calls it, and would hold the lock of
        # its supervisor.
        os.close(lock)
        os.close(go_write)
        os.close(error_read)
        _become_child(spec, become_worker, go_read, error_write)
    os.close(go_read)
    os.close(error_write)
    # Both sides do it: whichever comes first, no signal to the group can miss the worker.
    os.setpgid(pid, pid)
    identity: dict[str, object] = {
        "run_id": spec["run_id"],
        "pid": pid,
        "start_time": _start_time(pid),
        "boot_id": spec["boot_id"],
        "supervisor_pid": os.getpid(),
        "supervisor_start_time": _start_time(os.getpid()),
        "argv": spec["argv"],
        "warm": become_worker is not exec_worker,
        "started_at": time.time(),
    }
    if remote is not None:
        identity |= remote.identity()
    # Before the worker's first instruction: from here on a daemon can always find the process.
    # A worker that is held back for want of room has not begun, so its run only waits.
    record = os.path.join(spec["run_dir"], f"supervisor{_suffix(spec)}.json")
    _patiently(lambda: _write_json(record, identity))
    # A worker that is started again after its run was cancelled would play until it is killed. The
    # daemon leaves its mark before it signals, so one of the two sees the other.
    if not _stop_asked(spec):
        try:
            os.write(go_write, b"go")
        except BrokenPipeError:  # killed before it began; its status is waited for as any other
            pass
    os.close(go_write)

    def failure() -> str:
        with os.fdopen(error_read, "rb") as report:
            return report.read().decode(errors="replace")

    return pid, failure


def _create_logs(run_dir: str) -> None:
    """Make the worker's logs while it can still wait for an inode.

    Any other problem is met again by the worker itself, which reports it.
    """
    for name in _LOGS:
        path = os.path.join(run_dir, "logs", name)
        try:
            os.close(_patiently(partial(os.open, path, _LOG_MODE, 0o644)))
        except OSError:
            pass


def _become_child(
    spec: Spec, become_worker: Callable[[Spec], NoReturn], go_read: int, error_write: int
) -> NoReturn:
    try:
        # A signal that is ignored stays so across `exec`; the worker must hear SIGTERM.
        for number in _IGNORED:
            signal.signal(number, signal.SIG_DFL)
        try:
            os.setpgid(0, 0)
        except PermissionError:  # the parent was quicker
            pass
        # The pipe was closed instead: the supervisor died before the worker was on record.
        if os.read(go_read, 2) != b"go":
            os._exit(EXEC_FAILED)
        os.close(go_read)
        logs = os.path.join(spec["run_dir"], "logs")
        for target, name in enumerate(_LOGS, start=1):
            log = os.open(os.path.join(logs, name), _LOG_MODE, 0o644)
            os.dup2(log, target)
            os.close(log)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.chdir(spec["cwd"])
        become_worker(spec)
    except OSError as error:
        os.write(error_write, f"{spec['argv'][0]}: {error.strerror}".encode())
    finally:
        os._exit(EXEC_FAILED)


def _wait_for(pid: int) -> tuple[int, resource.struct_rusage]:
    """Reap everything that ends until `pid` does."""
    while True:
        # Any child: as sub-reaper it is the parent of whatever the worker has orphaned.
        ended, status, usage = os.wait4(-1, 0)
        if ended == pid:
            return status, usage


def _end_descendants(group: int) -> int:
    """Give what the worker left behind a moment, then kill it; how many had to be killed."""
    killed: set[int] = set()
    deadline = time.monotonic() + _NATURAL_END_S
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return len(killed)
        if time.monotonic() >= deadline:
            for pid in _descendants():
                killed.add(pid)
                _kill(pid)
            try:
                os.killpg(group, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        time.sleep(0.02)


def _descendants() -> list[int]:
    """Live processes below this one. Nothing below it can escape: it is their sub-reaper."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat_fields(int(name))
            if fields and fields[0] != "Z":
                parents[int(name)] = int(fields[1])
    mine, found = os.getpid(), set[int]()
    grew = True
    while grew:
        fresh = {
            pid
            for pid, parent in parents.items()
            if pid not in found and (parent == mine or parent in found)
        }
        found |= fresh
        grew = bool(fresh)
    return sorted(found)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


# As in `mosaic.system.processes`. This file is run by path in an isolated interpreter, where
# importing MOSAIC is neither possible nor quick enough; the same holds for `_write_json`.
def _stat_fields(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as handle:
            text = handle.read()
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()


def _start_time(pid: int) -> int:
    fields = _stat_fields(pid)
    return int(fields[19]) if fields else 0


def _memory_kills() -> int:
    """How many processes the kernel has killed for memory since boot."""
    try:
        with open("/proc/vmstat") as handle:
            return next((int(line.split()[1]) for line in handle if line[:8] == "oom_kill"), 0)
    except OSError:
        return 0


def _patiently(action: Callable[[], Result]) -> Result:
    """Do something as soon as the machine has room for it; other errors are raised."""
    while True:
        try:
            return action()
        except OSError as error:
            if error.errno not in _TRANSIENT:
                raise
            time.sleep(_FULL_DISK_RETRY_S)


def _write_patiently(path: str, document: Mapping[str, object]) -> None:
    """Write the last record even if the disk is full for a while; a folder that is gone ends it."""
    while os.path.isdir(os.path.dirname(path)):
        try:
            return _write_json(path, document)
        except OSError:
            time.sleep(_FULL_DISK_RETRY_S)
    return None


def _write_json(path: str, document: Mapping[str, object]) -> None:
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "w") as handle:
        json.dump(document, handle)
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(temporary, path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def ignore_polite_signals() -> None:
    """Only SIGKILL ends a supervisor: a polite signal meant for the worker must not."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)


def main() -> int:
    """Read a spec from standard input, or from the file that is named, and supervise it."""
    # While it waits for its specification, any signal may end it: nothing has begun.
    spec: Spec | None = (
        json.load(sys.stdin) if len(sys.argv) == 1 else _remote_part().claim(sys.argv[1])
    )
    if spec is None:
        return ALREADY_SUPERVISED
    ignore_polite_signals()
    remote = _remote_part().Remote(spec, _suffix(spec)) if spec.get("site") else None
    return supervise(spec, exec_worker, remote)


def _remote_part() -> ModuleType:
    """What is needed besides where the daemon cannot see the processes; not loaded elsewhere."""
    # Isolated Python does not look beside the script by itself.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    return importlib.import_module("remote")


if __name__ == "__main__":
    sys.exit(main())
