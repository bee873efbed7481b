"""A real Ray cluster on this machine, each node with a home of its own for agents."""

import importlib.util
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from mosaic.agent.folder import FOLDER
from mosaic.system.processes import process_state

from .trainer import until
from .wire import Wire

NODES = ("r1", "r2")


def needed() -> None:
    """Skip the test where there can be no cluster."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("needs ray: make setup-ray")


class RayCluster:
    """A head and other nodes; the second also has the resource `big`.

    Args:
        root: Where the homes of the nodes are.
        variables: The environment of the nodes.
        nodes: What they are called, the head first.
        cpus: How many CPUs each of them says it has.
        head_cpus: How many the head has; as many as the others when it is None.
        wire: The network of the second node; None for this machine's own.
    """

    def __init__(
        self,
        root: Path,
        variables: Mapping[str, str],
        *,
        nodes: Sequence[str] = NODES,
        cpus: int = 1,
        head_cpus: int | None = None,
        wire: Wire | None = None,
    ) -> None:
        self.homes = {name: root / name for name in nodes}
        self._root = root
        self._variables = variables
        self._wire = wire
        self._cpus = cpus
        self._head_cpus = cpus if head_cpus is None else head_cpus
        # One that all nodes can reach, also one behind a wire.
        self._host = wire.here if wire else "127.0.0.1"
        # Ray's sockets need a short path.
        self._folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
        self.port, self.client_port = _free_port(), _free_port()
        self._log = root / "ray.log"

    @property
    def site(self) -> str:
        return f"ray://{self._host}:{self.client_port}"

    def start(self) -> None:
        """Start all nodes; done when all count."""
        self.start_head()
        self.start_second()
        for name in list(self.homes)[2:]:
            self.start_node(name)

    def start_head(self) -> None:
        """Start the first node with the cluster's memory and the door for clients."""
        self._ray(
            "r1", "--head", f"--port={self.port}", f"--num-cpus={self._head_cpus}",
            "--include-dashboard=false", f"--node-ip-address={self._host}",
            f"--ray-client-server-port={self.client_port}", f"--temp-dir={self._folder}",
        )  # fmt: skip

    def start_second(self) -> None:
        """Start the node with the resource `big`, or start it again."""
        own = (f"--node-ip-address={self._wire.there}",) if self._wire else ()
        prefix = self._wire.prefix if self._wire else ()
        self.start_node("r2", '--resources={"big": 1}', *own, prefix=prefix)

    def start_node(self, name: str, *options: str, prefix: Sequence[str] = ()) -> None:
        """Start one more node."""
        address = f"{self._host}:{self.port}"
        self._ray(name, f"--address={address}", f"--num-cpus={self._cpus}", *options, prefix=prefix)

    def _ray(self, node: str, *options: str, prefix: Sequence[str] = ()) -> None:
        home = self.homes.setdefault(node, self._root / node)
        home.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            subprocess.run(
                [*prefix, sys.executable, "-m", "ray.scripts.scripts", "start",
                 "--disable-usage-stats", *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True,
                env={**os.environ, **self._variables, "MOSAIC_HOME": str(home),
                     "RAY_TMPDIR": str(self._folder),
                     # Else a head asks for a token wherever its user has ever called `ray.init()`.
                     "RAY_AUTH_MODE": "disabled"},
            )  # fmt: skip

    def processes(self, *words: str) -> list[int]:
        """Processes of this cluster whose command has these words."""
        found = []
        for entry in os.listdir("/proc"):
            with suppress(OSError):
                if not entry.isdigit() or int(entry) == os.getpid():
                    continue
                command = Path(f"/proc/{entry}/cmdline").read_text(errors="replace")
                mine = str(self._folder) in command + _environment(entry) + _open_files(entry)
                alive = process_state(int(entry)) not in ("", "Z", "X")
                if mine and alive and all(word in command for word in words):
                    found.append(int(entry))
        return found

    def node_of(self, run_id: str) -> str:
        """The node whose home holds a run."""
        holds = (name for name, home in self.homes.items() if (home / FOLDER / run_id).exists())
        return next(holds, "")

    def kill_raylet(self, node: str) -> None:
        """kill -9 what Ray has on a node."""
        home = f"MOSAIC_HOME={self.homes[node]}"
        for pid in self.processes("raylet/raylet"):
            if home in _environment(str(pid)).split("\0"):
                os.kill(pid, signal.SIGKILL)

    def kill_gcs(self) -> None:
        """kill -9 the cluster's memory."""
        for pid in self.processes("gcs_server"):
            os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        """End every process of Ray; those of runs are the tests' own to end."""

        def left() -> list[int]:
            pids = [pid for pid in self.processes() if "mosaic.agent" not in _command(pid)]
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return pids

        until(lambda: not left(), "nothing is left of Ray", 60)
        shutil.rmtree(self._folder, ignore_errors=True)


def _environment(entry: str) -> str:
    try:
        return Path(f"/proc/{entry}/environ").read_text(errors="replace")
    except OSError:
        return ""


def _open_files(entry: str) -> str:
    """What a process has open; some of Ray's overwrite their command and their environment."""
    try:
        files = list(Path(f"/proc/{entry}/fd").iterdir())
        return "\0".join(os.readlink(file) for file in files)
    except OSError:
        return ""


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def _free_port() -> int:
    # Ray's own workers take the ports below, the system hands out those above.
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


@contextmanager
def running(made: RayCluster) -> Iterator[RayCluster]:
    """A cluster until the end of the block."""
    try:
        made.start()
        yield made
    finally:
        made.stop()
