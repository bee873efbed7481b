"""Fixtures of all tests: homes with real daemons that leave nothing behind."""

import os
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support import leaks
from support.trainer import Trainer, install_rogue, trainers

# A test that forgets to close one file does no harm; every test that does so ends here.
_MOST_FILES_KEPT = 150


def pytest_configure() -> None:
    """Make the tests mean the same on a busy machine, and below a shell that ignores Ctrl+C."""
    # A shell starts its background jobs with SIGINT ignored. Every process that the tests start
    # would inherit that, and the ones that interrupt a command would wait for ever.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # How long an example takes, or its making, says how busy the machine is and nothing else.
    settings.register_profile(
        "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("any machine")


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    """After the last test: no process, no shared memory, no crowd of open files."""
    mark = uuid.uuid4().hex
    os.environ[leaks.MARK] = mark
    memory, files = frozenset(os.listdir(leaks.SHARED_MEMORY)), leaks.open_files()
    yield
    assert not leaks.lasting(lambda: leaks.marked_processes(mark)), "processes are left"
    assert not leaks.lasting(lambda: leaks.abandoned_memory(memory)), "shared memory is left"
    assert leaks.open_files() <= files + _MOST_FILES_KEPT, "files are left open"


@pytest.fixture(scope="session")
def python_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where daemons find the misbehaving worker."""
    return install_rogue(tmp_path_factory.mktemp("workers") / "site")


@pytest.fixture
def make_trainer(tmp_path: Path, python_path: str) -> Iterator[Callable[..., Trainer]]:
    """Makes homes; settings by name, e.g. `make_trainer(grace_s="5")`."""
    with trainers(tmp_path, python_path) as make:
        yield make


@pytest.fixture
def trainer(make_trainer: Callable[..., Trainer]) -> Trainer:
    """A home whose daemon runs."""
    return make_trainer().start()
