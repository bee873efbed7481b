"""Starting runs: the cold way, a fresh interpreter, and the warm way, a fork of a zygote."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from mosaic.trainer.launch import supervisor
from mosaic.trainer.launch.warm import WarmProcesses


@dataclass(frozen=True)
class LaunchSpec:
    """Everything a supervisor needs. `env` may hold secrets.

    On this machine it is never written to the disk. On another one it travels in a file that only
    its owner can read, and that is gone before the worker starts.

    Attributes:
        restarts: How often a worker that is killed is started again.
        attempt: Which attempt of the run this is.
        site: Where it runs; empty on this machine, where the daemon sees the processes itself.
        from_node: Variables whose value the node knows, such as which GPUs the engine gave.
        usual: Variables for a machine that has none of that name. `env` is made of the parts.
        given: Variables that count on every machine.
        private: Variables of a machine that no worker inherits.
    """

    run_id: str
    run_dir: Path
    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: Path
    boot_id: str
    restarts: int = 0
    attempt: int = 1
    site: str = ""
    from_node: tuple[str, ...] = ()
    usual: dict[str, str] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=dict)
    private: frozenset[str] = frozenset()

    def to_dict(self) -> supervisor.Spec:
        """As sent to a supervisor."""
        return {
            "run_id": self.run_id,
            "run_dir": str(self.run_dir),
            "argv": list(self.argv),
            "env": self.env,
            "cwd": str(self.cwd),
            "boot_id": self.boot_id,
            "restarts": self.restarts,
            "attempt": self.attempt,
            "site": self.site,
            "from_node": list(self.from_node),
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
        self._warm = WarmProcesses()

    def warm_up(self, modules: Sequence[str]) -> None:
        """Begin importing a worker's modules, so that its first run starts at once."""
        self._warm.warm_up(tuple(modules))

    async def launch(self, spec: LaunchSpec, warm_modules: Sequence[str]) -> None:
        if warm_modules and await self._warm.fork(tuple(warm_modules), spec.to_dict()):
            return
        await asyncio.to_thread(self._launch_cold, spec)

    def _launch_cold(self, spec: LaunchSpec) -> None:
        shim = Path(supervisor.__file__)
        child = subprocess.Popen(
            # Isolated and without site packages: the shim starts in milliseconds, and nothing
            # that a user has installed can break it.
            [sys.executable, "-I", "-S", str(shim)],
            # The spec holds secrets, which must show neither in a command line nor in a file.
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
        self._warm.reap()

    async def close(self) -> None:
        self._warm.close()
