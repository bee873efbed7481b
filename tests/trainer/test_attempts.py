"""A run whose machine was taken away continues at a step that its curves are cut back to."""

import hashlib
import json
from pathlib import Path

import pytest

from mosaic.config.paths import Home
from mosaic.runs.metric_writer import MetricWriter
from mosaic.runs.metrics import MetricReader
from mosaic.trainer.core.states import Checkpoint, Run
from mosaic.trainer.launch import attempts
from mosaic.workers.capabilities import WorkerCapabilities

WORKER = WorkerCapabilities(worker_type="example", modes=("train", "resume_training"))
TAG = "charts/return"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with one run that has points at 10, 20, 30 and 40 steps."""
    home = Home.locate(tmp_path)
    home.configs.mkdir(parents=True)
    (home.configs / "worker-R.json").write_text('{"extras": {"mode": "train", "label": "kept"}}')
    (home.run_dir("R") / "checkpoints").mkdir(parents=True)
    with MetricWriter(home.run_dir("R")) as writer:
        for step in (10, 20, 30, 40):
            writer.add(TAG, step, float(step))
    return home


def _save(home: Home, step: int) -> Checkpoint:
    path = f"checkpoints/step-{step}.state"
    content = f"the state at {step}".encode()
    (home.run_dir("R") / path).write_bytes(content)
    return Checkpoint(path, step, hashlib.sha256(content).hexdigest(), "full", 0.0)


def _continued(home: Home, *told: Checkpoint) -> tuple[str, list[int]]:
    """What the worker is to continue from, and the steps that its curve still has."""
    attempts.prepare(home, Run("R", attempt=2, checkpoints=told), WORKER)
    extras = json.loads((home.configs / "worker-R.json").read_text())["extras"]
    assert extras["label"] == "kept"
    place = extras.get("checkpoint_path", "")
    steps = list(MetricReader(home.run_dir("R")).read(TAG)["step"])
    return place.removeprefix(f"{home.run_dir('R')}/"), steps


def test_a_checkpoint_that_was_never_told_leaves_no_gap(home: Home) -> None:
    """On a full disk the file may be whole and the line about it missing: the run continues from
    the one before, whose step is known, and draws every point after it again."""
    told = _save(home, 20)
    _save(home, 40)
    assert _continued(home, told) == (told.path, [10, 20])


def test_a_damaged_checkpoint_is_passed_over(home: Home) -> None:
    """The curve is cut where the run really continues, not where it should have."""
    older, newest = _save(home, 10), _save(home, 30)
    (home.run_dir("R") / newest.path).write_bytes(b"half of it")
    assert _continued(home, older, newest) == (older.path, [10])


def test_one_that_was_pruned_is_passed_over(home: Home) -> None:
    """The list of a run names every checkpoint that it ever saved."""
    older, newest = _save(home, 20), _save(home, 30)
    (home.run_dir("R") / newest.path).unlink()
    assert _continued(home, older, newest) == (older.path, [10, 20])


def test_a_worker_that_writes_over_its_file_keeps_what_it_has(home: Home) -> None:
    """Where nothing is as it was told, the worker looks for itself in its folder."""
    told = _save(home, 20)
    (home.run_dir("R") / told.path).write_bytes(b"a later state")
    assert _continued(home, told) == ("checkpoints", [10, 20])


def test_a_run_that_has_saved_nothing_begins_again(home: Home) -> None:
    """Without its first curve, which would run back over itself."""
    assert _continued(home) == ("", [])
