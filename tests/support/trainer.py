"""A real daemon on a home of its own, real workers under it, and proof that nothing is left."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mosaic.client import TrainerClient
from mosaic.config.paths import Home
from mosaic.connect.endpoint import find_endpoint
from mosaic.errors import DaemonNotRunningError
from mosaic.records import RunRecord
from mosaic.runs.directory import RunDirectory
from mosaic.system.processes import kill_marked, process_state
from support import leaks
from support.patience import PATIENCE_S

WORKERS = Path(__file__).parent / "workers"
_ENTRY_POINTS = {
    "rogue": "rogue:get_worker_metadata",
    "broken_check": "rogue:get_metadata_with_broken_check",
    "broken_package": "no_such_package:get_worker_metadata",
}
DEFAULTS = {
    "warm_start": "false",
    "grace_s": "2",
    "cpu_slots": "2",
    "min_free_disk_mb": "0",
}


def install_rogue(folder: Path) -> str:
    """Make the misbehaving worker discoverable; the PYTHONPATH that does it."""
    install_package(folder, "rogue-worker", _ENTRY_POINTS)
    return f"{folder}{os.pathsep}{WORKERS}"


def install_package(
    folder: Path, name: str, workers: Mapping[str, str], source: str | None = None
) -> None:
    """A package as `pip install` leaves it, with the entry points of its workers.

    Args:
        folder: Where packages are found.
        name: The package, and the module that `source` becomes.
        workers: The function of each worker's descriptor, in that module unless it names one.
        source: The module's text.
    """
    package = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{key} = {at if ':' in at else f'{name}:{at}'}" for key, at in workers.items()]
    (package / "entry_points.txt").write_text("\n".join(["[mosaic.workers]", *lines, ""]))
    if source is not None:
        (folder / f"{name}.py").write_text(source)


def until(condition: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> Any:
    """Wait for something to become true and give it back."""
    deadline = time.monotonic() + patience_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"never happened: {what}")
        time.sleep(0.02)


class Trainer:
    """One home with its daemon, which can be killed and started again."""

    def __init__(self, root: Path, python_path: str, settings: dict[str, str]) -> None:
        self.home = Home.locate(root)
        self._settings = {**DEFAULTS, **settings}
        self._python_path = python_path
        self._daemon: subprocess.Popen[bytes] | None = None
        self._client: TrainerClient | None = None
        self._output = root.parent / f"{root.name}-daemon-output.txt"
        # What the daemon is started through, such as a shell that sets limits.
        self.prefix: tuple[str, ...] = ()

    # ------------------------------------------------------------ the daemon

    def environment(self, **extra: str) -> dict[str, str]:
        """What a daemon of this home is started with."""
        inherited = {key: val for key, val in os.environ.items() if not key.startswith("MOSAIC_")}
        settings = {
            f"MOSAIC_SETTING_{name.upper()}": value for name, value in self._settings.items()
        }
        return {**inherited, **settings, "PYTHONPATH": self._python_path, **extra}

    def spawn(self, *arguments: str, **extra: str) -> "subprocess.Popen[bytes]":
        """A daemon process as it is, not waited for."""
        command = [sys.executable, "-m", "mosaic.trainer.daemon", "--home", str(self.home.root)]
        with open(self._output, "ab") as output:
            return subprocess.Popen(
                [*self.prefix, *command, *(arguments or ("--port", "0"))],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self.environment(**extra),
            )

    def start(self, *arguments: str, **extra: str) -> "Trainer":
        """Start a daemon and wait until it serves."""
        process = self.spawn(*arguments, **extra)
        self._daemon = process

        def serving() -> bool:
            if process.poll() is not None:
                raise AssertionError(f"the daemon ended {process.returncode}: {self.output()}")
            try:
                return find_endpoint(self.home).pid == process.pid
            except DaemonNotRunningError:
                return False

        until(serving, "the daemon serves")
        return self

    def output(self) -> str:
        """Everything the daemons of this home printed."""
        return self._output.read_text(errors="replace") if self._output.exists() else ""

    def log(self) -> str:
        """The daemon's own log."""
        path = self.home.daemon_log
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def pid(self) -> int:
        assert self._daemon is not None
        return self._daemon.pid

    @property
    def running(self) -> bool:
        """Whether a daemon of this home is alive."""
        return self._daemon is not None and self._daemon.poll() is None

    @property
    def client(self) -> TrainerClient:
        """A client of the daemon that runs now."""
        if self._client is None:
            self._client = TrainerClient.connect(self.home)
        return self._client

    def kill(self) -> None:
        """kill -9 the daemon."""
        assert self._daemon is not None
        self._daemon.send_signal(signal.SIGKILL)
        self.wait_for_death()

    def wait_for_death(self) -> int:
        """The daemon's end, however it comes; its exit status."""
        assert self._daemon is not None
        code = self._daemon.wait(timeout=PATIENCE_S)
        self._daemon = None
        if self._client is not None:
            self._client.close()
            self._client = None
        return code

    def restart(self, **extra: str) -> None:
        """kill -9 and a new daemon."""
        self.kill()
        self.start(**extra)

    # ------------------------------------------------------------ runs

    def config(self, behaviour: str, **fields: Any) -> dict[str, Any]:
        """A full config of the misbehaving worker; `fields` go to the top level."""
        extras = fields.pop("extras", {})
        worker = {"type": "rogue", "config": {"algo": behaviour, "extras": extras}}
        if "module" in fields:
            worker["module"] = fields.pop("module")
        return {"artifacts": {}, "metadata": {"worker": worker}, **fields}

    def submit(self, behaviour: str, **fields: Any) -> str:
        """Submit a run of the misbehaving worker."""
        return self.client.submit(self.config(behaviour, **fields)).run_id

    def wait_for(self, run_id: str, *states: str) -> RunRecord:
        """The record of a run once it is in one of `states`."""

        def reached() -> RunRecord | None:
            record = self.client.get(run_id)
            if record.ended and "TERM" not in states:
                raise AssertionError(f"{run_id} ended {record.outcome}: {record.reason}")
            return record if record.state in states else None

        found: RunRecord = until(reached, f"{run_id} in {states}")
        return found

    def ended(self, run_id: str) -> RunRecord:
        """The record of a run once it has ended."""
        return self.wait_for(run_id, "TERM")

    def stepping(self, behaviour: str = "steady", **fields: Any) -> RunRecord:
        """Submit a run and wait until it makes steps."""
        run_id = self.submit(behaviour, **fields)
        self.wait_for(run_id, "EXEC")
        until(lambda: self.steps(run_id) > 2, f"{run_id} makes steps")
        return self.client.get(run_id)

    def directory(self, run_id: str) -> RunDirectory:
        return RunDirectory(self.home.run_dir(run_id))

    def steps(self, run_id: str) -> int:
        """How far a run is, read from its own file and not from the daemon."""
        try:
            return int((self.directory(run_id).path / "steps.txt").read_text() or 0)
        except FileNotFoundError:
            return 0

    def kinds(self, run_id: str) -> list[str]:
        """The kinds of a run's events; their numbers are dense."""
        events = self.client.events(run_id)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        return [event.kind for event in events]

    def supervisor(self, run_id: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.directory(run_id).supervisor.read_text())
        return document

    def free_slots(self) -> int:
        return int(self.client.resources().cpus_free)

    # ------------------------------------------------------------ the end

    def run_ids(self) -> list[str]:
        """Every run of the home, also those in the trash."""
        folders = (self.home.runs, self.home.trash)
        return [path.name for folder in folders if folder.exists() for path in folder.iterdir()]

    def processes(self) -> list[int]:
        """Every live process that belongs to this home: daemon, zygotes, supervisors, workers."""
        marks = [str(self.home.root).encode(), *(name.encode() for name in self.run_ids())]
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) != os.getpid():
                text = _read(f"/proc/{entry}/environ") + _read(f"/proc/{entry}/cmdline")
                alive = process_state(int(entry)) not in ("", "Z", "X")
                if alive and any(mark in text for mark in marks):
                    found.append(int(entry))
        return found

    def close(self) -> None:
        """Stop everything, then prove that nothing of this home is alive."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._daemon is not None:
            self._daemon.send_signal(signal.SIGTERM)
            try:
                self._daemon.wait(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._daemon.kill()
                self._daemon.wait()
        until(lambda: not self._sweep(), f"nothing is left of {self.home.root}", 20)

    def _sweep(self) -> list[int]:
        """Kill the runs' processes, also one that was just being launched; who is left."""
        for run_id in self.run_ids():
            kill_marked(run_id)
        return self.processes()


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


@contextmanager
def trainers(tmp_path: Path, python_path: str) -> Iterator[Callable[..., Trainer]]:
    """A maker of homes whose processes, files and shared memory are gone afterwards."""
    made: list[Trainer] = []

    def make(name: str = "home", **settings: str) -> Trainer:
        made.append(Trainer(tmp_path / name, python_path, settings))
        return made[-1]

    try:
        yield make
    finally:
        for trainer in made:
            trainer.close()
    runs = {run_id for trainer in made for run_id in trainer.run_ids()}
    left = [name for name in os.listdir("/dev/shm") if any(run_id in name for run_id in runs)]
    assert not left, f"shared memory left behind: {left}"
    # By their place and not by their number: a home may stay open while other tests of this process
    # load libraries that keep files of their own.
    homes = tuple(f"{trainer.home.root}/" for trainer in made)
    held = [path for path in leaks.opened(os.getpid()) if path.startswith(homes)]
    assert not held, f"files of the home are still open here: {held}"
