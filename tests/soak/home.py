"""A home under attack: its daemon, its processes, its disk and its clock."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from mosaic.client import TrainerClient
from mosaic.config.paths import HOME_VARIABLE, Home
from mosaic.connect.endpoint import find_endpoint
from mosaic.connect.starting import start_daemon
from mosaic.errors import MosaicError
from mosaic.records import RunRecord

SETTINGS = {
    "GRACE_S": "3",
    "HANDSHAKE_TIMEOUT_S": "60",
    "MIN_FREE_DISK_MB": "20",
    "CPU_SLOTS": "3",
}
_DISK_MB = 2048
_CLOCK = Path(__file__).parent / "clock"
_START_ATTEMPTS = 5


@dataclass(frozen=True)
class Sample:
    """The daemon at one moment."""

    at_s: float
    pid: int
    descriptors: int
    resident_mb: float


class BesiegedHome:
    """Everything a soak does to a home, and everything it may look at."""

    def __init__(self, root: Path) -> None:
        self.home = Home.locate(root)
        self.samples: list[Sample] = []
        self.starts: list[float] = []
        self._began = time.monotonic()
        self._clock = root.parent / "clock"
        self._client: TrainerClient | None = None
        self.own_disk = _mount(root)
        for name, value in SETTINGS.items():
            os.environ[f"MOSAIC_SETTING_{name}"] = value
        os.environ["SOAK_CLOCK"] = str(self._clock)
        inherited = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_CLOCK), inherited)))

    # ------------------------------------------------------------ the daemon

    def start(self) -> None:
        """Start a daemon; a killed one may need a moment to release its lock."""
        began = time.monotonic()
        for attempt in range(_START_ATTEMPTS):
            try:
                start_daemon(self.home, port=0)
                break
            except MosaicError:
                if attempt == _START_ATTEMPTS - 1:
                    raise
                time.sleep(1.0)
        self.starts.append(time.monotonic() - began)

    @property
    def client(self) -> TrainerClient:
        """A client of the daemon that runs now."""
        if self._client is None:
            self._client = TrainerClient.connect(self.home)
        return self._client

    def forget_client(self) -> None:
        """Drop the connection to a daemon that is gone."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def daemon(self) -> psutil.Process | None:
        """The daemon's process, if one runs."""
        try:
            return psutil.Process(find_endpoint(self.home).pid)
        except (MosaicError, psutil.NoSuchProcess):
            return None

    def kill_daemon(self, without_registry: bool) -> str:
        """kill -9; the registry is only a cache, so it may go too."""
        daemon = self.daemon()
        if daemon is None:
            return ""
        daemon.kill()
        _wait_until_gone(daemon.pid)
        self.forget_client()
        if without_registry:
            for path in self.home.trainer.glob("*.db*"):
                path.unlink()
        self.start()
        return "daemon killed" + (", registry removed" if without_registry else "")

    def sample(self) -> None:
        """Note how many descriptors and how much memory the daemon has."""
        daemon = self.daemon()
        with suppress(psutil.Error):
            if daemon is not None:
                resident = daemon.memory_info().rss / 2**20
                at = time.monotonic() - self._began
                self.samples.append(Sample(at, daemon.pid, daemon.num_fds(), resident))

    # ------------------------------------------------------------ its processes

    def zygote(self) -> psutil.Process | None:
        """The process that warm runs are forked from."""
        daemon = self.daemon()
        with suppress(psutil.Error):
            for child in daemon.children() if daemon else ():
                if any("zygote" in word for word in child.cmdline()):
                    return child
        return None

    def processes(self, record: RunRecord) -> dict[str, psutil.Process]:
        """The worker of a run, its supervisor and its training process, as far as they live."""
        found: dict[str, psutil.Process] = {}
        with suppress(psutil.Error):
            if record.pid and self._belongs(record.pid, record.run_id):
                worker = psutil.Process(record.pid)
                found["worker"] = worker
                children = worker.children()
                if children:
                    found["training process"] = children[0]
                parent = worker.parent()
                if parent and self._belongs(parent.pid, record.run_id):
                    found["supervisor"] = parent
        return found

    def _belongs(self, pid: int, run_id: str) -> bool:
        """Never signal a stranger: our processes name the run in environment or command."""
        with suppress(OSError):
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            return run_id.encode() in environment + command
        return False

    def live_processes(self) -> list[str]:
        """Processes of runs of this home that are still there, as `pid command`."""
        mark = f"{HOME_VARIABLE}={self.home.root}".encode()
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                variables = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
                named = any(item.startswith(b"MOSAIC_RUN_ID=") for item in variables)
                if named and mark in variables and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(f"{process.pid} {' '.join(process.cmdline())[:120]}")
        return found

    @staticmethod
    def freeze(process: psutil.Process, seconds: float) -> None:
        """SIGSTOP for a while."""
        with suppress(psutil.Error):
            process.send_signal(signal.SIGSTOP)
            try:
                time.sleep(seconds)
            finally:
                process.send_signal(signal.SIGCONT)

    # ------------------------------------------------------------ its disk and its clock

    def fill_disk(self, seconds: float) -> str:
        """Take all space for a while; only where the home has a disk of its own."""
        if not self.own_disk:
            return ""
        ballast = self.home.root / "ballast"
        with suppress(OSError), open(ballast, "wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 20))
        try:
            time.sleep(seconds)
        finally:
            ballast.unlink(missing_ok=True)
        return f"disk full for {seconds:.0f} s"

    def jump_clock(self, seconds: int) -> str:
        """Move the wall clock of the daemon; the monotonic clock stays."""
        self._clock.write_text(str(seconds))
        return f"clock {seconds:+d} s"

    def close(self) -> None:
        """Stop the daemon and release the disk."""
        with suppress(MosaicError):
            self.client.shutdown("stop")
        self.forget_client()
        if self.own_disk:
            subprocess.run(["umount", "-l", str(self.home.root)], check=False)


def _mount(root: Path) -> bool:
    """Give the home a small disk of its own where we may; a full disk then harms no one else."""
    root.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MB}m,mode=700", "tmpfs", str(root)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 20
    while psutil.pid_exists(pid) and time.monotonic() < deadline:
        with suppress(psutil.Error):
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return
        time.sleep(0.02)
