"""A process that has imported a worker's heavy modules and forks runs from itself.

It has no threads, no CUDA context and no gRPC channel, so that a fork is safe. Each request on
its socket is one run: the zygote forks a supervisor, which forks the worker, as the cold path
does with `exec`. It ends when the daemon's end of the socket closes; its runs continue.
"""

import argparse
import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import traceback
from collections.abc import Mapping
from typing import NoReturn

from mosaic.system.interpreter import end_forked, exit_code
from mosaic.system.processes import MARKER, stat_fields
from mosaic.trainer.launch import supervisor

# A forked process shows its parent's start-up environment in /proc, where the marker of a run
# is looked for. The zygote is therefore started with a marker of the same length, and each
# worker overwrites it in its own memory. The command line is made room for in the same way.
BLANK_RUN_ID = "0" * 26
TITLE_PADDING = "--title=" + " " * 400
_MAX_REQUEST = 4_000_000


def main() -> int:
    """Import, report, fork on request."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket-fd", type=int, required=True)
    parser.add_argument("--modules", default="")
    parser.add_argument("--title", default="")
    options = parser.parse_args()
    channel = socket.socket(fileno=options.socket_fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The kernel collects the supervisors: no one here waits for them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    failed = _import_all(options.modules.split(","))
    # What is frozen is never looked at by a collection, so that it stays shared with every fork
    # instead of being copied page by page.
    gc.collect()
    gc.freeze()
    _send(channel, {"ready": True, "failed": failed, "threads": _thread_count()})
    while True:
        spec = _receive(channel)
        if spec is None:
            return 0
        _send(channel, {"supervisor_pid": _fork_supervisor(channel, spec)})


def _import_all(modules: list[str]) -> dict[str, str]:
    failed = {}
    for module in filter(None, modules):
        try:
            importlib.import_module(module)
        except Exception as error:
            failed[module] = f"{type(error).__name__}: {error}"
    return failed


def _thread_count() -> int:
    return len(os.listdir("/proc/self/task"))


def _fork_supervisor(channel: socket.socket, spec: supervisor.Spec) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        channel.close()
        os.setsid()
        # While it is ignored the kernel collects children, and no one could read how the worker
        # ended.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        supervisor.ignore_polite_signals()
        _set_title(f"mosaic-supervisor {spec['run_id']}")
        status = supervisor.supervise(spec, _run_module)
    finally:
        os._exit(status)


def _run_module(spec: supervisor.Spec) -> NoReturn:
    """Become the worker: the same module, arguments and environment, without a new interpreter."""
    arguments = spec["argv"]
    module = arguments[arguments.index("-m") + 1]
    os.environ.clear()
    os.environ.update(spec["env"])
    _set_marker(spec["run_id"])
    _set_title(" ".join(arguments))
    sys.argv = [module, *arguments[arguments.index("-m") + 2 :]]
    # As in a fresh interpreter: `KeyboardInterrupt`, not the plain end that the supervisor set.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # It may be among the warm modules; runpy warns about a module that is imported already.
    sys.modules.pop(module, None)
    code = 1
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as stop:
        code = exit_code(stop)
    except BaseException:
        traceback.print_exc()
    finally:
        end_forked(code)


def _memory_range(first_field: int) -> tuple[int, int]:
    """Two neighbouring addresses of /proc/self/stat (argv: 45, environment: 47)."""
    fields = stat_fields(os.getpid())
    assert fields is not None
    return int(fields[first_field]), int(fields[first_field + 1])


def _set_marker(run_id: str) -> None:
    start, end = _memory_range(47)
    block = ctypes.string_at(start, end - start)
    needle = f"{MARKER}={BLANK_RUN_ID}".encode()
    position = block.find(needle)
    if position >= 0:
        ctypes.memmove(start + position, f"{MARKER}={run_id}".encode(), len(needle))


def _set_title(title: str) -> None:
    start, end = _memory_range(45)
    room = end - start
    ctypes.memmove(start, title.encode()[: room - 1].ljust(room, b"\0"), room)


def _send(channel: socket.socket, message: Mapping[str, object]) -> None:
    content = json.dumps(message).encode()
    channel.sendall(len(content).to_bytes(4, "big") + content)


def _receive(channel: socket.socket) -> supervisor.Spec | None:
    header = _read_exactly(channel, 4)
    if header is None:
        return None
    size = int.from_bytes(header, "big")
    content = _read_exactly(channel, size) if size <= _MAX_REQUEST else None
    spec: supervisor.Spec | None = json.loads(content) if content else None
    return spec


def _read_exactly(channel: socket.socket, size: int) -> bytes | None:
    parts = b""
    while len(parts) < size:
        part = channel.recv(size - len(parts))
        if not part:
            return None
        parts += part
    return parts


if __name__ == "__main__":
    sys.exit(main())
