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
    if (made.folder / "data").exists():  # something was started with it
        made.mosaic("down", "--stop-runs")


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


@dataclass
class Own:
    """An environment of one's own, made by `python -m venv` and one `pip install`."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("MOSAIC_")}
        return {
            **{key: value for key, value in kept.items() if key != "PYTHONPATH"},
            "XDG_DATA_HOME": str(self.folder / "data"),
            "MOSAIC_SETTING_PORT": "0",
        }

    def __call__(self, program: str, *words: str) -> str:
        """What a program of the environment prints; it must succeed."""
        done = subprocess.run(
            [str(self.folder / "own" / "bin" / program), *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, f"{program} {' '.join(words)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def run(self, *words: str) -> dict[str, str]:
        """The run that a command of `mosaic` made and followed to its end."""
        record: dict[str, str] = json.loads(self("mosaic", *words, "--json"))
        assert record["outcome"] == "completed", record["reason"]
        return record


@pytest.fixture
def own(installed: Installed, tmp_path: Path) -> Iterator[Own]:
    """As the installation page says."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "own")], check=True)
    made = Own(tmp_path)
    wheels = str(installed.site.parent / "built")
    pip = ("-q", "--disable-pip-version-check", "install", "--find-links", wheels)
    made("pip", *pip, "mosaic-rl[cleanrl,human,gui,optuna]")
    yield made
    made("mosaic", "down", "--stop-runs")


# Gigabytes are unpacked; each command has a limit of its own.
@pytest.mark.timeout(3600)
@pytest.mark.prove
def test_the_wheels_bring_what_they_need(own: Own) -> None:
    """A new environment and one `pip install`: it trains, and a worker of one's own is at home.

    What `mosaic worker new` writes is trained, resumed, evaluated, swept, exported and shown in
    the window, in which no line knows it.
    """
    short = ("--total-timesteps", "512", "--num-envs", "2", "--num-steps", "64")
    own.run("train", "ppo", "--start", *short)
    assert "3 episodes: return" in own("mosaic", "eval", "last", "--episodes", "3")
    said = own("mosaic", "doctor")
    assert 'pip install "mosaic-rl[wandb]"' in said, "what is left out can be added the same way"

    own("mosaic", "worker", "new", "arms")
    own("pip", "-q", "install", "./arms")
    train = ("train", "bandit", "--worker", "arms", "--epsilon", "0.3")
    whole = own.run(*train, "--total-timesteps", "400")
    own.run(*train, "--total-timesteps", "200")
    resumed = own.run("train", "bandit", "--resume", "last", "--additional-timesteps", "200")
    assert _learned(resumed) == _learned(whole), "continuing equals not stopping"
    assert "5 episodes: return" in own("mosaic", "eval", "last", "--episodes", "5")
    ways = ("--param", "epsilon=0.1,0.5", "--sampler", "grid", "--pruner", "none")
    words = ("sweep", *train[1:-2], "--total-timesteps", "300", *ways, "--json")
    found = json.loads(own("mosaic", *words))
    assert [trial["state"] for trial in found["trials"]] == ["complete", "complete"]
    own("mosaic", "export", whole["run_id"], resumed["run_id"], "--output", "both.mosaic")
    assert (own.folder / "both.mosaic").exists()

    script = str(Path(__file__).with_name("look_at_runs.py"))
    seen = json.loads(own("python", script, whole["run_id"], resumed["run_id"]))
    assert seen[whole["run_id"]] == ["train", "completed"]
    assert seen[resumed["run_id"]] == ["resume_training", "completed"]
    described, environments, problem = seen["form"]
    assert (described, environments) == ("bandit", ["TenArms-v0"])
    assert "at most 1" in problem


def _learned(record: dict[str, str]) -> object:
    return json.loads((Path(record["run_dir"]) / "checkpoints" / "step-400.json").read_text())
