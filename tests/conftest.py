"""Fixtures of all tests: homes with real daemons that leave nothing behind."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.trainer import Trainer, install_rogue, trainers


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
