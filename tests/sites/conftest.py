"""A real SLURM cluster for the tests of this folder."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.slurm import SlurmCluster, cluster, missing
from support.trainer import Trainer

MakeTrainer = Callable[..., Trainer]


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    """Two nodes of its own for each test: they are up in a fifth of a second."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    with cluster(tmp_path / "slurm") as made:
        # Daemons and commands of the test find the cluster by it.
        monkeypatch.setenv("SLURM_CONF", str(made.configuration))
        yield made


@pytest.fixture
def lab(slurm: SlurmCluster, make_trainer: MakeTrainer) -> Trainer:
    """A daemon whose runs go to the cluster."""
    return make_trainer(site="slurm:debug", lost_after_s="5", site_poll_s="0.5").start()
