"""A real window on a real daemon, a watchdog for slow slots, a search for what is left behind."""

import gc
import os
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import pytest
from qtpy.QtCore import QCoreApplication, QEvent, QUrl
from qtpy.QtWidgets import QApplication
from support.patience import PATIENCE_S
from support.trainer import Trainer, trainers
from support.window_leaks import Holdings, left_since

from gym_gui.app import make_services, prepare
from gym_gui.background.daemons import LOCAL
from gym_gui.main_window import MainWindow
from gym_gui.models.train_draft import TrainDraft
from gym_gui.widgets import web_view
from mosaic.client import TrainerClient
from mosaic.config.paths import Home
from mosaic.errors import MosaicError
from mosaic.presenting.run_status import is_real
from mosaic.records import RunRecord

# A slot may keep the GUI thread this long on a machine that needs `_REFERENCE_S` for the work of
# `_pace`. `benchmarks/gui.py` measures the same events against 50 ms; here only what has gone wrong
# by its kind (a file read, a loop over all rows) has to be caught, on any machine.
SLOW_SLOT_S = 0.2
_REFERENCE_S = 0.0013


@pytest.fixture(scope="session")
def qapp() -> Any:
    """The one application object, prepared as the program prepares it, and watched."""
    prepare()
    application = WatchedApplication(["mosaic"])
    # What has been imported stays; collecting garbage after each test need not look at it again.
    gc.freeze()
    return application


@pytest.fixture(scope="session")
def web_engine(qapp: Any) -> None:
    """Started before open files are counted: its own stay open as long as the application lives."""
    if web_view.web_engine_problem():
        return
    page, profile = web_view.make_page(QUrl("http://127.0.0.1/"))
    for gone in (page, profile):
        gone.deleteLater()
        QCoreApplication.sendPostedEvents(gone, QEvent.Type.DeferredDelete)


@pytest.fixture(scope="session")
def shared_trainer(
    tmp_path_factory: pytest.TempPathFactory, python_path: str, web_engine: None
) -> Iterator[Trainer]:
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
        ids.append(str(shared_trainer.client.submit(config).run_id))
    for run_id in ids:
        assert shared_trainer.ended(run_id).outcome == "completed"
    return ids


@pytest.fixture
def extra_files(shared_trainer: Trainer, trained: list[str]) -> Iterator[Path]:
    """The folder of the second trained run, to put files in; they are gone after the test."""
    folder = Path(shared_trainer.client.get(trained[1]).run_dir)
    before = set(folder.iterdir())
    yield folder
    for path in set(folder.iterdir()) - before:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


class WatchedApplication(QApplication):
    """An application that knows how long each event kept the GUI thread busy."""

    watchdog: "Watchdog | None" = None
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
    for long, not when it is made to wait. Slow cores and neighbours on the same core make even
    that longer; a fixed piece of work, timed right afterwards, says how much.
    """

    def __init__(self) -> None:
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
            slowdown = max(1.0, max(_pace() for _ in range(5)) / _REFERENCE_S)
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

    def until(self, condition: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> Any:
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
        store, model = self.services.store, self.window.runs_panel.model
        self.until(lambda: store.complete, "the snapshot is complete")
        # The table follows the store a moment later; what is not in it cannot be selected in it.
        self.until(lambda: model.rowCount() > 0 or not store.runs, "the table is filled")
        self.until(lambda: self.window.launch.actors, "the roster is known")

    def train_form(self) -> Any:
        """The train form, ready to be filled in."""
        form = self.window.launch.form("train")
        self.until(lambda: form.algo.names and form.env.names, "the lists are there")
        form.load(TrainDraft())
        self.until(lambda: form.described == "ppo" and form.env.names, "the form is ready")
        return form

    def run(self, run_id: str) -> RunRecord:
        """What the window knows of a run."""
        return self.services.store.runs[run_id]

    def reaches(self, run_id: str, *states: str) -> RunRecord:
        """Wait until the window shows a run in one of these states."""
        self.until(
            lambda: run_id in self.services.store.runs and self.run(run_id).state in states,
            f"{run_id} in {states}",
        )
        return self.run(run_id)

    def cell(self, run_id: str, key: str) -> str:
        """What the table says of a run in a column; it follows the store a moment later."""
        model = self.window.runs_panel.model
        self.until(lambda: model.row_of(run_id) >= 0, "the run has a row")
        return str(model.index(model.row_of(run_id), model.place_of(key)).data())

    def submit(self, config: dict[str, Any]) -> str:
        """Send a config past the form; the run as the window knows it."""
        sent: list[Any] = []
        self.services.link.ask(lambda client: client.submit(config), sent.append, sent.append)
        self.until(lambda: sent, "the daemon answers")
        assert not isinstance(sent[0], Exception), sent[0]
        run_id = str(sent[0].run_id)
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


@pytest.fixture(autouse=True)
def no_leaks(qapp: Any) -> Iterator[None]:
    """Fails a test that leaves threads, timers, child processes or open files behind."""
    before = Holdings.now()
    yield
    left = left_since(before)
    assert not left, f"left behind: {left}"


@pytest.fixture
def open_window(qapp: Any, watchdog: Watchdog, no_leaks: None) -> Iterator[Callable[..., Driver]]:
    """Opens windows on homes and closes them at the end."""
    opened: list[MainWindow] = []

    def make(home: Home, start_daemon: bool = False, addresses: Sequence[str] = (LOCAL,)) -> Driver:
        if not opened:
            # A program starts without a style sheet. That of the test before would be put on each
            # part of the window as it is built, which takes five times as long.
            qapp.setStyleSheet("")
        window = MainWindow(make_services(home, start_daemon, addresses))
        opened.append(window)
        window.show()
        window.services.daemons.open()
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
                if run.live and is_real(run):
                    client.cancel(run.run_id, grace_s=0.5)
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
