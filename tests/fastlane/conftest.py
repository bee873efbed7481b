"""Real writers and readers: processes with a folder of their own for what they share."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.frames import Child, StartPython, StartTrainee, shared_files_in_use

from mosaic.runs.ids import new_run_id

SUPPORT = Path(__file__).parents[1] / "support"
WORKER = Path(__file__).parents[2] / "workers" / "cleanrl_worker"


@pytest.fixture(autouse=True)
def lane_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in place of /dev/shm; a test that leaves files or open descriptors fails."""
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setenv("MOSAIC_FASTLANE_DIR", str(folder))
    yield folder
    assert [path.name for path in folder.iterdir()] == []
    assert shared_files_in_use() == []


@pytest.fixture
def run_id() -> str:
    """The id of a run that nobody else uses."""
    return new_run_id()


@pytest.fixture
def start_python(tmp_path: Path) -> Iterator[StartPython]:
    """Start Python processes that are gone when the test is over."""
    children: list[Child] = []

    def start(*arguments: str, **variables: str) -> Child:
        complaints = tmp_path / f"stderr-{len(children)}"
        with complaints.open("w") as stderr:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                env={**os.environ, **variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        children.append(Child(process, complaints))
        return children[-1]

    yield start
    for child in children:
        child.end()


@pytest.fixture
def start_trainee(start_python: StartPython, run_id: str, tmp_path: Path) -> Iterator[StartTrainee]:
    """Start an unmodified script the way the launcher does, with FastLane's settings."""
    from cleanrl_worker.fastlane import launch_environment

    stop = tmp_path / "stop"
    started: list[Child] = []

    def start(kind: str, **variables: str) -> Child:
        environment = {
            "PYTHONPATH": os.pathsep.join([str(WORKER), str(SUPPORT)]),
            "MOSAIC_RUN_ID": run_id,
            "MOSAIC_RUN_DIR": str(tmp_path / "run"),
            "CLEANRL_FASTLANE_SHARE": "0.5",
            **variables,
        }
        environment.update(launch_environment({}, environment))
        child = start_python(str(SUPPORT / "trainee.py"), kind, str(stop), **environment)
        assert child.line() == "stepping\n", child.complaints()
        started.append(child)
        return child

    yield start
    stop.touch()
    for child in started:
        child.wait()
