"""A real window on a real daemon, a watchdog for slow slots, a search for what is left behind."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import psutil
import pytest
from qtpy.QtWidgets import QApplication
from support.trainer import Trainer, trainers

from gym_gui.app import make_services, prepare
from gym_gui.main_window import MainWindow
from gym_gui.models.train_draft import TrainDraft
from mosaic.client import TrainerClient
from mosaic.config.paths import Home
from mosaic.errors import MosaicError

SLOW_SLOT_S = 0.05
# Shared cores: a slot is slow when it used the processor for long, not when it had to wait.
_PATIENCE_S = 15.0


@pytest.fixture(scope="session")
def qapp() -> Any:
    """The one application object, prepared as the program prepares it, and watched."""
    prepare()
    return WatchedApplication(["mosaic"])


@pytest.fixture(scope="session")
def shared_trainer(tmp_path_factory: pytest.TempPathFactory, python_path: str) -> Iterator[Trainer]:
    """One daemon for the tests that do not harm it."""
    with trainers(tmp_path_factory.mktemp("gui"), python_path) as make:
        yield make().start()


@pytest.fixture(scope="session")
def trained(shared_trainer: Trainer) -> list[str]:
    """Two short CartPole runs that differ in their seed, finished, with everything they leave."""
    ids = []
    for seed in (1, 2):
        config = config_of("ppo", "cleanrl", env_id="CartPole-v1", total_timesteps=4096, extras={})
        config["metadata"]["worker"]["config"]["seed"] = seed
        ids.append(str(shared_trainer.client.submit(config)["run_id"]))
    for run_id in ids:
        assert shared_trainer.ended(run_id)["outcome"] == "completed"
    return ids


class WatchedApplication(QApplication):
    """An application that knows how long each event kept the GUI thread busy."""

    watchdog: Watchdog | None = None
    _depth = 0

    def notify(self, receiver: Any, event: Any) -> bool:
        dog = self.watchdog
        if dog is None or self._depth:
            return bool(super().notify(receiver, event))
        self._depth = 1
        dog.enter()
        try:
            return bool(super().notify(receiver, event))
        finally:
            self._depth = 0
            dog.leave()


def _pace() -> float:
    """Processor seconds of a fixed piece of work."""
    begun = time.thread_time()
    sum(number * number for number in range(30_000))
    return time.thread_time() - begun


class Watchdog:
    """Measures the processor time of each event that the GUI thread handles.

    An event that takes longer than the limit is remembered with the stack that a sampling thread
    saw while it ran. Processor time, because the cores are shared: a slot is slow when it works
    for long, not when it is made to wait. Neighbours on the same core make even that longer; a
    fixed piece of work, timed right afterwards, says how much.
    """

    _best_pace = 1.0

    def __init__(self) -> None:
        Watchdog._best_pace = min(Watchdog._best_pace, *(_pace() for _ in range(10)))
        self.slow: list[str] = []
        self._thread = threading.get_ident()
        self._begun = 0.0
        self._cpu = 0.0
        self._stack = ""
        self._over = threading.Event()
        self._sampler = threading.Thread(target=self._sample, name="watchdog", daemon=True)
        self._sampler.start()

    def enter(self) -> None:
        """An event begins."""
        self._stack = ""
        self._cpu = time.thread_time()
        self._begun = time.monotonic()

    def leave(self) -> None:
        """An event ends."""
        used = time.thread_time() - self._cpu
        self._begun = 0.0
        if used > SLOW_SLOT_S:
            slowdown = max(1.0, _pace() / self._best_pace)
            if used / slowdown > SLOW_SLOT_S:
                self.slow.append(f"{used * 1000:.0f} ms ({slowdown:.1f} × load)\n{self._stack}")

    def stop(self) -> None:
        """Watch no longer."""
        self._over.set()
        self._sampler.join()

    def _sample(self) -> None:
        while not self._over.wait(0.01):
            begun = self._begun
            if begun and time.monotonic() - begun > SLOW_SLOT_S * 0.8 and not self._stack:
                frame = sys._current_frames().get(self._thread)
                self._stack = "".join(traceback.format_stack(frame)[-12:]) if frame else ""


class Driver:
    """Drives one window as a person would, and waits as a person would."""

    def __init__(self, window: MainWindow, application: Any) -> None:
        self.window = window
        self.services = window.services
        self._application = application

    def spin(self, seconds: float) -> None:
        """Let the window live for a while."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._application.processEvents()
            time.sleep(0.002)

    def until(
        self, condition: Callable[[], Any], what: str, patience_s: float = _PATIENCE_S
    ) -> Any:
        """Let the window live until something is true."""
        deadline = time.monotonic() + patience_s
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"never happened: {what}")
            self._application.processEvents()
            time.sleep(0.002)
        return value

    # ------------------------------------------------------------ shorthand

    def connected(self) -> None:
        """Wait until the daemon is there and the roster is known."""
        self.until(lambda: self.services.link.state.name == "connected", "connected")
        self.until(lambda: self.services.store.complete, "the snapshot is complete")
        self.until(lambda: self.window.launch.actors, "the roster is known")

    def train_form(self) -> Any:
        """The train form, ready to be filled in."""
        form = self.window.launch.form("train")
        self.until(lambda: form.algo.names and form.env.names, "the lists are there")
        form.load(TrainDraft())
        self.until(lambda: form.described == "ppo" and form.env.names, "the form is ready")
        return form

    def run(self, run_id: str) -> dict[str, Any]:
        """What the window knows of a run."""
        return self.services.store.runs[run_id]

    def reaches(self, run_id: str, *states: str) -> dict[str, Any]:
        """Wait until the window shows a run in one of these states."""
        self.until(
            lambda: run_id in self.services.store.runs and self.run(run_id)["state"] in states,
            f"{run_id} in {states}",
        )
        return self.run(run_id)

    def submit(self, config: dict[str, Any]) -> str:
        """Send a config past the form; the run as the window knows it."""
        sent: list[Any] = []
        self.services.link.call("submit", config, done=sent.append, failed=sent.append)
        self.until(lambda: sent, "the daemon answers")
        assert isinstance(sent[0], dict), sent[0]
        run_id = str(sent[0]["run_id"])
        self.until(lambda: run_id in self.services.store.runs, "the run is listed")
        return run_id


def config_of(algo: str = "darts", worker: str = "example", **fields: Any) -> dict[str, Any]:
    """A small run: the example worker needs no torch and starts at once."""
    extras = fields.pop("extras", {"step_ms": 20})
    inner = {"algo": algo, "total_timesteps": 100_000, "extras": extras, **fields}
    return {"artifacts": {}, "metadata": {"worker": {"type": worker, "config": inner}}}


@pytest.fixture
def watchdog(qapp: Any) -> Iterator[Watchdog]:
    """Fails the test when a slot kept the GUI thread busy for too long; says where."""
    dog = qapp.watchdog = Watchdog()
    yield dog
    qapp.watchdog = None
    dog.stop()
    assert not dog.slow, "slow slots on the GUI thread:\n" + "\n".join(dog.slow)


def _threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("gui-")}


@pytest.fixture
def no_leaks(qapp: Any) -> Iterator[None]:
    """Fails a test that leaves threads, timers, child processes or open files behind."""
    from qtpy.QtCore import QCoreApplication, QEvent, QTimer

    me = psutil.Process()
    children = {child.pid for child in me.children(recursive=True)}
    files = {item.path for item in me.open_files()}
    yield
    for _ in range(5):
        qapp.processEvents()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    gc.collect()
    deadline = time.monotonic() + 5
    while _threads() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _threads(), f"threads left behind: {_threads()}"
    timers = [
        timer
        for widget in qapp.topLevelWidgets()
        for timer in widget.findChildren(QTimer)
        if timer.isActive() and timer.objectName() != "qt_internal"
    ]
    assert not timers, f"timers left running: {[timer.parent() for timer in timers]}"
    left = [
        child
        for child in me.children(recursive=True)
        if child.pid not in children and not _is_engine(child) and not _is_daemon(child)
    ]
    assert not left, f"processes left behind: {[' '.join(_line(one)) for one in left]}"
    opened = {item.path for item in me.open_files()} - files
    ours = {path for path in opened if "/trainer/" in path or path.endswith(".json")}
    assert not ours, f"files left open: {ours}"


def _line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _is_engine(process: psutil.Process) -> bool:
    # The web engine keeps a few helpers for the life of the application.
    return any("QtWebEngineProcess" in word for word in _line(process)[:1])


def _is_daemon(process: psutil.Process) -> bool:
    # The daemon and its runs outlive windows; their fixture proves that they end.
    words = _line(process)
    return not words or any("mosaic" in one or "_worker" in one for one in words[:4])


@pytest.fixture
def open_window(qapp: Any, watchdog: Watchdog, no_leaks: None) -> Iterator[Callable[..., Driver]]:
    """Opens windows on homes and closes them at the end."""
    opened: list[MainWindow] = []

    def make(home: Home, start_daemon: bool = False) -> Driver:
        window = MainWindow(make_services(home, start_daemon))
        opened.append(window)
        window.show()
        window.services.link.open()
        return Driver(window, qapp)

    yield make
    for window in opened:
        _end_runs(window)
        window.close()
        window.deleteLater()


def _end_runs(window: MainWindow) -> None:
    """A test's runs must not keep the slots from the next test's."""
    try:
        with TrainerClient.connect(window.services.link.home) as client:
            for run in list(window.services.store.runs.values()):
                if run["state"] != "TERM" and not run.get("pending"):
                    client.cancel(run["run_id"], grace_s=0.5)
    except MosaicError:
        pass  # the daemon is gone; its fixture ends what is left


@pytest.fixture
def driver(open_window: Callable[..., Driver], shared_trainer: Trainer) -> Driver:
    """A window on the shared daemon, connected."""
    made = open_window(shared_trainer.home)
    made.connected()
    return made


@pytest.fixture
def empty_home(tmp_path: Path) -> Home:
    """A home in which nothing ever ran."""
    return Home.locate(tmp_path / "home")
