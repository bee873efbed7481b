"""The training process T as W sees it: started, spoken to, waited for."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from cleanrl_worker.kit.bridge import VARIABLE


class TrainingProcess:
    """One child, in this process's own group, with a bridge."""

    def __init__(self, pid: int, bridge: socket.socket) -> None:
        self.pid = pid
        self.bridge = bridge
        self._lock = threading.Lock()
        self._status: int | None = None

    @classmethod
    def start(cls, arguments: Sequence[str], environment: Mapping[str, str]) -> TrainingProcess:
        """Fork when the heavy modules are already here, else start an interpreter."""
        ours, theirs = socket.socketpair()
        variables = {**environment, VARIABLE: str(theirs.fileno())}
        with theirs:
            if "torch" in sys.modules:
                pid = _fork(arguments, variables, ours)
            else:
                command = [sys.executable, "-m", "cleanrl_worker.launcher", *arguments]
                child = subprocess.Popen(
                    command,
                    env={**os.environ, **variables},
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                )
                child.returncode = 0  # waited for by pid, below
                pid = child.pid
        return cls(pid, ours)

    def send(self, command: str) -> None:
        """Tell T something; one that is gone is noticed by `wait`."""
        line = json.dumps({"command": command}) + "\n"
        with self._lock:
            try:
                self.bridge.sendall(line.encode())
            except OSError:
                pass

    def wait(self, block: bool) -> int | None:
        """T's wait status once it has ended."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, 0 if block else os.WNOHANG)
            self._status = status if pid else None
        return self._status

    def is_stopped(self) -> bool:
        """Whether T stands still by a signal: then W must not say that all is well."""
        try:
            text = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return False
        return text[text.rindex(")") + 2] == "T"

    def kill(self) -> None:
        """End T at once."""
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.wait(block=True)


def _fork(arguments: Sequence[str], variables: Mapping[str, str], ours: socket.socket) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        ours.close()
        os.environ.update(variables)
        from cleanrl_worker import launcher

        launcher.run(arguments[0], arguments[1:])
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        _leave(code)
    return 0


def _leave(code: int) -> None:
    """End a forked process as an interpreter would: threads joined, exit handlers run."""
    import atexit

    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
    os._exit(code)
