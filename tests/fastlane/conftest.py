"""Real writers and readers: processes with a folder of their own for what they share."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WORKER = HERE.parents[1] / "workers" / "cleanrl_worker"
for folder in (HERE, WORKER):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from fastlane_tools import Child, StartPython, StartTrainee, shared_files_in_use  # noqa: E402

from mosaic.runs.ids import new_run_id  # noqa: E402


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
            "PYTHONPATH": os.pathsep.join([str(WORKER), str(HERE)]),
            "MOSAIC_RUN_ID": run_id,
            "MOSAIC_RUN_DIR": str(tmp_path / "run"),
            "CLEANRL_FASTLANE_SHARE": "0.5",
            **variables,
        }
        environment.update(launch_environment({}, environment))
        child = start_python(str(HERE / "trainee.py"), kind, str(stop), **environment)
        assert child.line() == "stepping\n", child.complaints()
        started.append(child)
        return child

    yield start
    stop.touch()
    for child in started:
        child.wait()
