"""The daemon's side of zygotes: each request has a deadline, and one that misbehaves is replaced.

The cold way is always there. So a zygote is trusted with nothing: one that hangs, dies or answers
nonsense costs its run some seconds at most, and later runs nothing.
"""

import asyncio
import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from mosaic.system.processes import MARKER
from mosaic.trainer.launch import zygote
from mosaic.trainer.launch.supervisor import Spec

# Importing torch takes seconds, on a cold disk a minute; after that the cold way is quicker.
_WARM_UP_LIMIT_S = 60.0
# A fork takes milliseconds, on a machine that swaps a second or two. A cold start is never wrong,
# and the supervisor's lock lets only one begin should the zygote answer after all.
_FORK_LIMIT_S = 10.0
# The second zygote follows at once: the first may have been killed by hand. If that one fails
# too, something is wrong with its modules, and the waits grow.
_PAUSE_S = 60.0
_LONGEST_ANSWER = 1 << 16

log = logging.getLogger(__name__)
Modules = tuple[str, ...]


@dataclass
class _Record:
    """What is known about the zygotes of one list of modules."""

    current: "Zygote | None" = None
    failures: int = 0
    not_before: float = 0.0
    unfit: bool = False


@dataclass
class WarmProcesses:
    """One zygote for each list of modules, replaced when it fails."""

    fork_limit_s: float = _FORK_LIMIT_S
    clock: Callable[[], float] = time.monotonic
    _records: dict[Modules, _Record] = field(default_factory=dict)
    _ending: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    def warm_up(self, modules: Modules) -> "Zygote | None":
        """The zygote for these modules, started if need be; None while there must be none."""
        record = self._records.setdefault(modules, _Record())
        if record.current is not None and record.current.ended_idle():
            self._retire(record, "it ended")
        if record.current is None and not record.unfit and self.clock() >= record.not_before:
            # No run waits for a second zygote to warm up: the first shows how that may end.
            patience = 0.0 if record.failures else _WARM_UP_LIMIT_S
            record.current = Zygote(modules, patience, self.fork_limit_s)
        return record.current

    async def fork(self, modules: Modules, request: Spec) -> bool:
        """Fork one run; False when no zygote can (the cold way remains)."""
        helper = self.warm_up(modules)
        if helper is None:
            return False
        forked = await helper.fork(request)
        record = self._records[modules]
        if forked:
            record.failures = 0
        # Of several runs that waited for the same zygote, the first retires it.
        if helper.problem and record.current is helper:
            record.unfit = helper.unfit
            self._retire(record, helper.problem)
        return forked

    def reap(self) -> None:
        """Collect what has ended; a zygote that was killed is replaced by the next run."""
        self._ending = [process for process in self._ending if process.poll() is None]
        for record in self._records.values():
            if record.current is not None and record.current.ended_idle():
                self._retire(record, "it ended")

    def close(self) -> None:
        """End every zygote; its runs continue."""
        for record in self._records.values():
            if record.current is not None:
                record.current.close()
        for process in self._ending:
            process.wait()
        self._records.clear()
        self._ending.clear()

    def _retire(self, record: _Record, problem: str) -> None:
        assert record.current is not None
        log.warning("a warm process is not used any more: %s", problem)
        self._ending.append(record.current.kill())
        record.current = None
        record.failures += 1
        record.not_before = self.clock() + (record.failures - 1) * _PAUSE_S


class Zygote:
    """One warm process.

    Attributes:
        problem: Why it must not be used any more; empty while it may.
        unfit: The problem is in its modules, so that a replacement would have it too.
    """

    def __init__(self, modules: Modules, patience_s: float, fork_limit_s: float) -> None:
        self.problem = ""
        self.unfit = False
        self._patience_s = patience_s
        self._fork_limit_s = fork_limit_s
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    zygote.__name__,
                    f"--socket-fd={theirs.fileno()}",
                    f"--modules={','.join(modules)}",
                    zygote.TITLE_PADDING,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=_environment(),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._channel = ours
        self._lock = asyncio.Lock()
        # Its own task, so that a run that stops waiting does not take half a greeting with it.
        self._greeting = asyncio.get_running_loop().create_task(self._greet())

    async def fork(self, request: Spec) -> bool:
        """Ask for one run; False when this zygote cannot."""
        # One conversation at a time: request and answer have no number to match them.
        async with self._lock:
            await asyncio.wait({self._greeting}, timeout=self._patience_s)
            if not self._greeting.done():
                # A first one had its time. A later one may still be warming up.
                self.problem = f"no greeting in {self._patience_s:g} s" if self._patience_s else ""
                return False
            if self.problem:
                return False
            try:
                async with asyncio.timeout(self._fork_limit_s):
                    await self._send(request)
                    await self._receive()
            except TimeoutError:
                self.problem = f"no answer in {self._fork_limit_s:g} s"
            except (OSError, EOFError, ValueError) as error:
                self.problem = f"its answer could not be read: {error}"
            return not self.problem

    def ended_idle(self) -> bool:
        """Whether its process is gone while no run waits for it; one that does finds out itself."""
        return not self._lock.locked() and self._process.poll() is not None

    def kill(self) -> "subprocess.Popen[bytes]":
        """End it at once, also one that was stopped; the process is to be collected."""
        self.problem = self.problem or "it was ended"
        self._greeting.cancel()
        self._channel.close()
        self._process.kill()
        return self._process

    def close(self) -> None:
        """Close the socket, on which the zygote ends, and collect it."""
        self._greeting.cancel()
        self._channel.close()
        try:
            self._process.wait(timeout=2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    async def _greet(self) -> None:
        try:
            threads = (await self._receive()).get("threads")
        except (OSError, EOFError, ValueError) as error:
            self.problem = f"its greeting could not be read: {error}"
            return
        if threads != 1:
            self.problem = f"it has {threads} threads, so that it cannot be forked safely"
            self.unfit = True

    async def _send(self, message: Spec) -> None:
        content = json.dumps(message).encode()
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self._channel, len(content).to_bytes(4, "big") + content)

    async def _receive(self) -> dict[str, object]:
        size = int.from_bytes(await self._read_exactly(4), "big")
        if size > _LONGEST_ANSWER:
            raise ValueError(f"an answer of {size:,} bytes")
        message = json.loads(await self._read_exactly(size))
        if not isinstance(message, dict):
            raise ValueError("not an object")
        return message

    async def _read_exactly(self, size: int) -> bytes:
        loop, parts = asyncio.get_running_loop(), b""
        while len(parts) < size:
            part = await loop.sock_recv(self._channel, size - len(parts))
            if not part:
                raise EOFError("the process ended")
            parts += part
        return parts


def _environment() -> dict[str, str]:
    """One thread for every numeric library: a process with threads must not be forked."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("MOSAIC_")}
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**kept, **single, MARKER: zygote.BLANK_RUN_ID}
