"""A real SLURM cluster for the tests of this folder."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.slurm import SlurmCluster, needed, running
from support.trainer import Trainer, trainers

MakeTrainer = Callable[..., Trainer]
SETTINGS = {"site": "slurm:debug", "lost_after_s": "5", "site_poll_s": "0.5"}


def _cluster(root: Path) -> Iterator[SlurmCluster]:
    needed()
    with running(SlurmCluster(root)) as made:
        yield made


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[SlurmCluster]:
    """Two nodes of its own, for a test that breaks them."""
    yield from _cluster(tmp_path / "slurm")


@pytest.fixture
def lab(slurm: SlurmCluster, make_trainer: MakeTrainer) -> Trainer:
    """A daemon whose runs go to the cluster."""
    return make_trainer(**SETTINGS).start()


@pytest.fixture(scope="module")
def shared_slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Two nodes for all tests of a file, which leave them as they were."""
    yield from _cluster(tmp_path_factory.mktemp("cluster") / "slurm")


@pytest.fixture(scope="module")
def shared_lab(
    shared_slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory, python_path: str
) -> Iterator[Trainer]:
    """One daemon for them, as cheap as it can be."""
    with trainers(tmp_path_factory.mktemp("lab"), python_path) as make:
        yield make(**SETTINGS).start()
