"""`mosaic worker new` writes a worker with which everything works that works with the bundled."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.trainer import Trainer, install_package

from cli.conftest import Command

TRAIN = ("train", "bandit", "--worker", "arms", "--epsilon", "0.3")


@pytest.fixture
def mosaic(tmp_path: Path, make_trainer: Callable[..., Trainer]) -> Command:
    """A home with a daemon, and a new package that is installed where it was written."""
    trainer = make_trainer()
    folder = tmp_path / "arms"
    path = f"{folder}{os.pathsep}{trainer.environment()['PYTHONPATH']}"
    command = Command(trainer.environment(MOSAIC_HOME=str(trainer.home.root), PYTHONPATH=path))
    said = command("worker", "new", "arms", "--folder", str(folder))
    assert "arms/learner.py" in said
    install_package(folder, "arms-worker", {"arms": "arms:get_worker_metadata"})
    trainer.start(PYTHONPATH=path)
    return command


def _weights(record: dict[str, str]) -> dict[str, object]:
    path = Path(record["run_dir"]) / "checkpoints" / "step-400.json"
    return dict(json.loads(path.read_text()))


def test_a_new_worker_trains_resumes_is_evaluated_swept_and_exported(
    mosaic: Command, tmp_path: Path
) -> None:
    """A third party needs no change of MOSAIC; continuing equals not stopping."""
    whole = mosaic.json(*TRAIN, "--total-timesteps", "400")
    mosaic.json(*TRAIN, "--total-timesteps", "200")
    resumed = mosaic.json("train", "bandit", "--resume", "last", "--additional-timesteps", "200")
    assert (resumed["worker"], resumed["algo"]) == ("arms", "bandit")
    assert _weights(resumed) == _weights(whole)
    assert "5 episodes: return" in mosaic("eval", "last", "--episodes", "5")
    ranges = mosaic(*TRAIN[:-1], "1.5", "--step-ms", "-1", code=2)
    assert "--epsilon: must be at least 0 and at most 1" in ranges
    assert "--step-ms: must be at least 0" in ranges, "all problems at once"
    refused = mosaic("train", "spade_bdi", "--resume", whole["run_id"], code=2)
    assert "trained by the worker arms" in refused
    words = ("--param", "epsilon=0.1,0.5", "--sampler", "grid", "--pruner", "none")
    found = mosaic.json("sweep", *TRAIN[1:-2], "--total-timesteps", "300", *words)
    assert [trial["state"] for trial in found["trials"]] == ["complete", "complete"]
    archive = tmp_path / "runs.mosaic.tar.gz"
    mosaic("export", whole["run_id"], resumed["run_id"], "--output", str(archive))
    assert archive.exists()


def test_a_new_worker_keeps_the_contract(mosaic: Command) -> None:
    """`mosaic check-worker` passes every rule before a line of it was changed."""
    results = mosaic.json("check-worker", "arms")
    assert [item["rule"] for item in results if not item["passed"]] == []


def test_names_that_cannot_be_are_refused(make_command: Callable[..., Command]) -> None:
    """With the reason, and before a file is written."""
    mosaic = make_command()
    assert "lower-case letters" in mosaic("worker", "new", "My-Worker", code=2)
    assert "a worker 'cleanrl' already" in mosaic("worker", "new", "cleanrl", code=2)
    assert "meaning of its own" in mosaic("worker", "new", "class", code=2)
