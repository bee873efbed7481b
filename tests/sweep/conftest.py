"""Homes whose daemons also know a worker with a curve that is known beforehand."""

import os
from pathlib import Path

import pytest
from support.trainer import install_rogue

WORKERS = Path(__file__).parent / "workers"


@pytest.fixture(scope="session")
def python_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where daemons and commands find the workers of the tests."""
    folder = tmp_path_factory.mktemp("sweep-workers")
    package = folder / "climber-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: climber\nVersion: 1.0\n")
    entry = "[mosaic.workers]\nclimber = climber:get_worker_metadata\n"
    (package / "entry_points.txt").write_text(entry)
    return os.pathsep.join([str(folder), str(WORKERS), install_rogue(folder / "site")])
