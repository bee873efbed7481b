"""Starting runs: the cold way, a fresh interpreter, and the warm way, a fork of a zygote."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from mosaic.trainer.launch import supervisor, zygote

# Importing torch takes seconds, on a cold disk a minute; after that the cold way is quicker.
_WARM_UP_LIMIT_S = 60.0


@dataclass(frozen=True)
class LaunchSpec:
    """Everything a supervisor needs. `env` may hold secrets: it is never written to disk."""

    run_id: str
    run_dir: Path
    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: Path
    boot_id: str

    def to_dict(self) -> dict[str, Any]:
        """As sent to a supervisor."""
        return {
            "run_id": self.run_id,
            "run_dir": str(self.run_dir),
            "argv": list(self.argv),
            "env": self.env,
            "cwd": str(self.cwd),
            "boot_id": self.boot_id,
        }


class Executor(Protocol):
    """Where runs are started: this machine, or another one behind the same interface."""

    async def launch(self, spec: LaunchSpec, warm_modules: Sequence[str]) -> None:
        """Start the supervisor of a run; warm when `warm_modules` are named."""

    def reap(self) -> None:
        """Collect supervisors that have ended."""

    async def close(self) -> None:
        """End the helpers; runs continue."""


class LocalExecutor:
    """Runs as processes of this machine."""

    def __init__(self) -> None:
        self._children: list[subprocess.Popen[bytes]] = []
        self._zygotes: dict[tuple[str, ...], _Zygote] = {}

    def warm_up(self, modules: Sequence[str]) -> None:
        """Begin importing a worker's modules, so that its first run starts at once."""
        self._zygote(tuple(modules))

    async def launch(self, spec: LaunchSpec, warm_modules: Sequence[str]) -> None:
        if warm_modules:
            forked = await self._zygote(tuple(warm_modules)).fork(spec)
            if forked:
                return
        await asyncio.to_thread(self._launch_cold, spec)

    def _launch_cold(self, spec: LaunchSpec) -> None:
        shim = Path(supervisor.__file__)
        child = subprocess.Popen(
            # Isolated and without site packages: the shim starts in milliseconds, and nothing
            # that a user has installed can break it.
            [sys.executable, "-I", "-S", str(shim)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"MOSAIC_SUPERVISES": spec.run_id},
            start_new_session=True,
        )
        self._children.append(child)
        assert child.stdin is not None
        with child.stdin:
            child.stdin.write(json.dumps(spec.to_dict()).encode())

    def reap(self) -> None:
        self._children = [child for child in self._children if child.poll() is None]
        dead = [modules for modules, helper in self._zygotes.items() if helper.ended()]
        for modules in dead:
            self._zygotes.pop(modules).close()

    async def close(self) -> None:
        for helper in self._zygotes.values():
            helper.close()
        self._zygotes.clear()

    def _zygote(self, modules: tuple[str, ...]) -> "_Zygote":
        if modules not in self._zygotes or self._zygotes[modules].ended():
            self._zygotes[modules] = _Zygote(modules)
        return self._zygotes[modules]


class _Zygote:
    """The daemon's side of one warm process."""

    def __init__(self, modules: tuple[str, ...]) -> None:
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
                env=_zygote_environment(),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._channel = ours
        self._lock = asyncio.Lock()
        self._ready = False

    async def fork(self, spec: LaunchSpec) -> bool:
        """Fork one run; False when this zygote cannot (the cold way remains)."""
        # One conversation at a time: request and answer have no number to match them.
        async with self._lock:
            try:
                if not self._ready:
                    hello = await asyncio.wait_for(self._receive(), _WARM_UP_LIMIT_S)
                    self._ready = hello["threads"] == 1
                if not self._ready:
                    return False
                await self._send(spec.to_dict())
                await self._receive()
            except (OSError, EOFError, TimeoutError):
                return False
            return True

    def ended(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        """Close the socket, on which the zygote ends, and collect it."""
        self._channel.close()
        try:
            self._process.wait(timeout=2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    async def _send(self, message: dict[str, Any]) -> None:
        content = json.dumps(message).encode()
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self._channel, len(content).to_bytes(4, "big") + content)

    async def _receive(self) -> dict[str, Any]:
        size = int.from_bytes(await self._read_exactly(4), "big")
        message: dict[str, Any] = json.loads(await self._read_exactly(size))
        return message

    async def _read_exactly(self, size: int) -> bytes:
        loop, parts = asyncio.get_running_loop(), b""
        while len(parts) < size:
            part = await loop.sock_recv(self._channel, size - len(parts))
            if not part:
                raise EOFError("the warm process ended")
            parts += part
        return parts


def _zygote_environment() -> dict[str, str]:
    """One thread for every numeric library: a process with threads must not be forked."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("MOSAIC_")}
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**kept, **single, "MOSAIC_RUN_ID": zygote.BLANK_RUN_ID}
