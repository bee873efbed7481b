"""Where an agent keeps a run on its own machine: a small home of its own, gone when the run is.

The worker sees it as its home: `trainer/daemon.json` names the daemon as it is reached from here.
"""

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mosaic.agent.orders import Order, read_order
from mosaic.config.paths import Home
from mosaic.connect import endpoint
from mosaic.connect.endpoint import Address, Endpoint
from mosaic.runs.directory import RunDirectory, read_json, remove_tree
from mosaic.system import atomic, processes

FOLDER = "agents"
_OVER = ".over"


@dataclass(frozen=True)
class AgentFolder:
    """The folder of one run.

    Attributes:
        root: The folder.
        shared: The home of this machine, whose caches all runs share.
        run_id: The run.
    """

    root: Path
    shared: Home
    run_id: str

    @classmethod
    def of(cls, home: Home, run_id: str) -> "AgentFolder":
        """The folder of a run in the home of this machine."""
        return cls(home.root / FOLDER / run_id, home, run_id)

    @property
    def home(self) -> Home:
        """The home that the worker sees."""
        return Home(self.root)

    @property
    def order_file(self) -> Path:
        return self.root / "order.json"

    @property
    def config(self) -> Path:
        return self.home.configs / f"worker-{self.run_id}.json"

    @property
    def log(self) -> Path:
        return self.root / "agent.log"

    def run(self, attempt: int) -> RunDirectory:
        """The run directory on this machine."""
        return RunDirectory(self.home.run_dir(self.run_id), attempt)

    def create(self) -> None:
        """Make the folders; what all runs of this machine share is shared with them too."""
        self.shared.root.mkdir(parents=True, exist_ok=True)
        for folder in (self.root.parent, self.root, self.home.trainer, self.home.configs):
            folder.mkdir(mode=0o700, exist_ok=True)
        (self.run(1).logs).mkdir(parents=True, exist_ok=True)
        self.shared.cache.mkdir(mode=0o700, exist_ok=True)
        for name in ("cache", "settings.json", "trainer/venvs"):
            theirs, ours = self.shared.root / name, self.root / name
            if theirs.exists() and not os.path.lexists(ours):
                ours.symlink_to(theirs)

    def write_order(self, order: Order) -> None:
        """Say what to do, or where the daemon is now; a running agent reads it again."""
        # For the owner alone: the key opens the daemon for this run.
        atomic.write_json(self.order_file, order, mode=0o600)

    def read_order(self) -> Order | None:
        """The newest order; None when it is gone or damaged."""
        document = read_json(self.order_file)
        try:
            return None if document is None else read_order(document)
        except (KeyError, ValueError):
            return None

    def lock(self) -> int | None:
        """The descriptor that makes this process the only agent of the run; None if another is."""
        descriptor = os.open(self.root / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        return descriptor

    def announce(self, address: Address) -> None:
        """Tell the worker where the daemon is, in this process's name: it lives as long."""
        pid = os.getpid()
        key = processes.ProcessKey(pid, processes.start_time(pid) or 0, processes.boot_id())
        endpoint.announce(
            self.home,
            Endpoint("", 0, "", key, address.certificate, address.name, address.target),
        )

    def remove(self) -> None:
        """The run is over, and the daemon has everything.

        It is moved first, so that an agent which starts now finds a whole folder or none.
        """
        over = self.root.with_suffix(_OVER)
        self.root.rename(over)
        remove_tree(over)

    def sweep(self) -> None:
        """Remove what an agent that was killed while it removed its folder has left."""
        for over in self.root.parent.glob(f"*{_OVER}"):
            with suppress(OSError):  # it is being removed
                remove_tree(over)
