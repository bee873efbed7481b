"""The training process T as W sees it: started, spoken to, listened to, waited for."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cleanrl_worker.modes.plan import Plan
from cleanrl_worker.running import handover
from cleanrl_worker.running.bridge import VARIABLE
from cleanrl_worker.stack import VARIABLE as STACK_VARIABLE
from cleanrl_worker.stack import StackFile
from mosaic.system.interpreter import end_forked, exit_code
from mosaic.system.processes import process_state

if TYPE_CHECKING:
    from cleanrl_worker.relay import Event

# One turn of listening: a flood must not keep the worker from its heartbeat.
_MOST_BYTES_A_TURN = 1 << 20


class TrainingProcess:
    """One child, in this process's own group, with a bridge."""

    def __init__(self, pid: int, bridge: socket.socket, stack: StackFile) -> None:
        self.pid = pid
        self._stack = stack
        self._bridge = bridge
        # A signal handler may send while its own thread is sending.
        self._lock = threading.RLock()
        self._status: int | None = None
        self._unread = b""

    @classmethod
    def start(cls, plan: Plan, environment: Mapping[str, str]) -> TrainingProcess:
        """Fork when the heavy modules are already here, else start an interpreter."""
        ours, theirs = socket.socketpair()
        stack = StackFile()
        with theirs, handover.offer(plan.values) as values:
            variables = {
                **environment,
                VARIABLE: str(theirs.fileno()),
                STACK_VARIABLE: str(stack.descriptor),
            }
            inherited = [theirs.fileno(), stack.descriptor]
            if plan.takes_values:
                variables[handover.VARIABLE] = str(values)
                inherited.append(values)
            if plan.python == sys.executable and _is_warm({**os.environ, **variables}):
                pid = _fork(plan, variables, ours)
            else:
                child = subprocess.Popen(
                    plan.start_command(),
                    env={**os.environ, **variables},
                    pass_fds=inherited,
                    stdin=subprocess.DEVNULL,
                    cwd=plan.folder,
                )
                child.returncode = 0  # waited for by pid, below
                pid = child.pid
        return cls(pid, ours, stack)

    def fileno(self) -> int:
        """What to wait on for news."""
        return self._bridge.fileno()

    def events(self) -> tuple[list[Event], bool]:
        """What T has said since the last call, and whether it may say more."""
        found: list[Event] = []
        received = 0
        while received < _MOST_BYTES_A_TURN:
            try:
                chunk = self._bridge.recv(1 << 16, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return found, True
            except OSError:
                return found, False
            if not chunk:
                return found, False
            received += len(chunk)
            *lines, self._unread = (self._unread + chunk).split(b"\n")
            found += filter(None, map(_event, lines))
        return found, True

    def send(self, command: str) -> None:
        """Tell T something; one that is gone is noticed by `wait`."""
        line = json.dumps({"command": command}) + "\n"
        with self._lock:
            try:
                self._bridge.sendall(line.encode())
            except OSError:
                pass

    def wait(self, block: bool) -> int | None:
        """T's wait status once it has ended."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, 0 if block else os.WNOHANG)
            self._status = status if pid else None
        return self._status

    def is_stopped(self) -> bool:
        """Whether T is stopped by a signal; W then sends no heartbeat."""
        return process_state(self.pid) == "T"

    def where(self) -> str:
        """What T is doing at this moment, innermost first; empty if it cannot say."""
        return self._stack.ask(self.pid) if self._status is None else ""

    def kill(self) -> None:
        """End T at once."""
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait(block=True)

    def close(self) -> None:
        """Close the bridge."""
        self._bridge.close()
        self._stack.close()


def _event(line: bytes) -> Event | None:
    """One line of the bridge; None for what is no event, as a script of the user may write."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None


def _is_warm(variables: Mapping[str, str]) -> bool:
    """Whether this process has the heavy modules, as a fresh one with these variables would."""
    if "torch" not in sys.modules:
        return False
    programs = sys.modules.get("cleanrl_worker.ondevice.programs")
    asked = {name: value for name, value in variables.items() if name.startswith("JAX_")}
    return programs is None or asked == programs.VARIABLES_READ


def _fork(plan: Plan, variables: Mapping[str, str], ours: socket.socket) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        # With a copy of W's end T would never see that W is gone.
        ours.close()
        os.environ.update(variables)
        if plan.folder is not None:
            os.chdir(plan.folder)
        from cleanrl_worker import launcher

        launcher.run(plan.target, plan.start_words())
        code = 0
    except SystemExit as stop:
        code = exit_code(stop)
    except BaseException:
        traceback.print_exc()
    finally:
        end_forked(code)
