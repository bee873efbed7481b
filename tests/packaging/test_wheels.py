"""The built wheels are whole: without the repository, MOSAIC trains and lists its extras."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKERS = ("workers/cleanrl_worker", "workers/human_worker")
PARTS = ("mosaic", "gym_gui", "proto", "docs", "requirements", *WORKERS)
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")


@dataclass
class Installed:
    """A folder of packages that were installed from wheels, used from an empty folder."""

    site: Path
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("MOSAIC_")}
        # First on the path: what the wheels lack must not come from the checkout.
        return {
            **kept,
            "PYTHONPATH": str(self.site),
            "XDG_DATA_HOME": str(self.folder / "data"),
            "MOSAIC_SETTING_PORT": "0",
            "MOSAIC_SETTING_WARM_START": "false",
        }

    def python(self, *words: str, code: int = 0) -> str:
        """What an interpreter prints that sees the wheels."""
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def mosaic(self, *words: str, code: int = 0) -> str:
        """What a command prints."""
        return self.python("-m", "mosaic", *words, code=code)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """The platform and the CleanRL worker from wheels that are built here."""
    place = tmp_path_factory.mktemp("wheels")
    source = place / "source"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "screenshots")
    for part in PARTS:
        shutil.copytree(ROOT / part, source / part, ignore=ignored)
    for file in FILES:
        shutil.copy(ROOT / file, source / file)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(place / "built")]
    for project in (source, *(source / worker for worker in WORKERS)):
        subprocess.run([*build, str(project)], check=True, capture_output=True)
    wheels = [str(path) for path in (place / "built").glob("*.whl")]
    target = ["--no-deps", "--target", str(place / "site")]
    subprocess.run([*pip, "install", *target, *wheels], check=True, capture_output=True)
    # The sources are gone, as they are for a user of the wheels.
    shutil.rmtree(source)
    (place / "work").mkdir()
    made = Installed(place / "site", place / "work")
    yield made
    made.python("-m", "mosaic", "down", "--stop-runs", code=0)


def test_an_installed_mosaic_trains_and_has_all_its_parts(installed: Installed) -> None:
    """Requirement sets, schema, templates and the list of workers are inside the packages."""
    where = installed.python("-c", "import mosaic, cleanrl_worker; print(mosaic.__file__)")
    assert where.startswith(str(installed.site))
    words = ("train", "ppo", "--start", "--total-timesteps", "256", "--num-envs", "1", "--json")
    run = json.loads(installed.mosaic(*words))
    assert run["outcome"] == "completed"
    home = installed.folder / "data" / "mosaic"
    assert run["run_dir"].startswith(str(home)), "every folder has the same home"
    assert "atari" in installed.mosaic("extras")
    listed = {
        worker["type"]: worker for worker in json.loads(installed.mosaic("workers", "--json"))
    }
    assert listed["cleanrl"]["available"]
    installed.mosaic("worker", "new", "fresh")
    assert (installed.folder / "fresh" / "fresh" / "cli.py").exists()
    schema = installed.site / "mosaic" / "config" / "train_run_config.schema.json"
    assert json.loads(schema.read_text())["title"] == "TrainRunConfig"
    assert next(installed.site.glob("mosaic_rl-*.dist-info")).name == "mosaic_rl-0.1.0.dist-info"


@pytest.mark.prove
def test_the_wheels_bring_what_they_need(installed: Installed, tmp_path: Path) -> None:
    """As the installation page says: a new environment, one `pip install`, and it trains."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "own")], check=True)
    programs = tmp_path / "own" / "bin"
    wheels = str(installed.site.parent / "built")
    pip = [str(programs / "pip"), "-q", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, "--find-links", wheels, "mosaic-rl[cleanrl,human]"], check=True)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("MOSAIC_")}
    environment = {
        **{key: value for key, value in kept.items() if key != "PYTHONPATH"},
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "MOSAIC_SETTING_PORT": "0",
    }

    def mosaic(*words: str) -> str:
        done = subprocess.run(
            [str(programs / "mosaic"), *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    try:
        words = ("--total-timesteps", "512", "--num-envs", "2", "--num-steps", "64", "--json")
        assert json.loads(mosaic("train", "ppo", "--start", *words))["outcome"] == "completed"
        assert "3 episodes: return" in mosaic("eval", "last", "--episodes", "3")
        said = mosaic("doctor")
        assert 'pip install "mosaic-rl[gui]"' in said, "what is left out can be added the same way"
    finally:
        mosaic("down", "--stop-runs")
