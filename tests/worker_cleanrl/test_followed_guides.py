"""Each guide followed from a fresh home, command by command, as a reader would type it.

The commands come from the pages themselves. Only numbers are made smaller, and names that a reader
has to fill in are filled in; what needs a network, a person or hours is left to other tests.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.trainer import install_package
from support.upstream import write_script

from mosaic.trainer.launch import hardware

pytestmark = pytest.mark.prove

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"
FOLLOWED = (
    "train", "resume", "evaluate", "scripts", "fork", "export", "play", "sweep", "experiments",
    "compare", "curriculum", "wandb", "bdi-plans", "on-device", "jax", "extras", "writing-a-worker",
    "health", "verify", "sdk", "interactive", "upstream-cleanrl",
)  # fmt: skip
# Pages whose commands need a second machine, a model, a display or a run that is still training.
# These tests do what the page says.
ELSEWHERE = {
    "fastlane": "tests/fastlane",
    "llm": "tests/llm/test_daemon.py",
    "people": "tests/cli/test_people.py",
    "qdagger": "tests/algorithms/test_trajectories.py",
    "ray": "tests/sites/test_ray.py",
    "remote": "tests/client/test_ssh.py",
    "report": "tests/reports/test_command.py",
    "slurm": "tests/sites/test_slurm.py",
    "ssh": "tests/sites/test_ssh_site.py",
    "telemetry-worker": "tests/docs/test_python_examples.py",
    "web": "tests/web",
    "workbench": "tests/gui",
}
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_STARTS = ("mosaic ", "python -m ", "pip ")
# A smaller number where the page has one that takes hours.
_SMALLER = {"--trials": 2, "--seeds": 2, "--num-seeds": 4, "--episodes": 20}
_MOST_STEPS = 4096
# A keyboard, a shell's loop, a server of one's own, a package index, a page that has to run.
_LEFT_OUT = (
    r"mosaic play (?!.*--script)",
    r"--jid ",
    r"install_extras --set",
    r"check-worker darts",
    r"try_upstream($| .*--steps)",
    r" > \$",
)
# What a page writes for a run of the reader's own.
_ONES_OWN_RUN = re.compile(r"\b(01[KM]\w{1,3}|RUN)\b")
# What these guides do happens at steps that only their own length reaches.
_WHOLE = {"fork", "health", "verify"}
# A session on standard input that ends at once, in the words of its own page.
_SESSION = '{"cmd": "reset", "seed": 3}\n{"cmd": "stop"}\n'


@dataclass
class Reader:
    """Someone with a checkout, an empty folder and a fresh home."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        kept = {key: val for key, val in os.environ.items() if not key.startswith("MOSAIC_")}
        own = {
            "HOME": str(self.folder),
            "CLEANRL_HOME": str(self.folder / "src" / "cleanrl"),
            "MOSAIC_HOME": str(self.folder / "home"),
            "MOSAIC_SETTING_PORT": "0",
            "MOSAIC_SETTING_MIN_FREE_DISK_MB": "0",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}",
            "PYTHONPATH": os.pathsep.join(str(path) for path in self.folder.glob("my_worker")),
            "WANDB_MODE": "offline",
        }
        return {**kept, **own}

    def type(self, line: str) -> str:
        """What a command prints; it must succeed."""
        words = shlex.split(line, comments=True)
        done = subprocess.run(
            words, cwd=self.folder, env=self.environment,
            input=_SESSION if "--interactive" in words else "",
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """With a daemon, a first run, and the files that pages speak of."""
    made = Reader(tmp_path)
    made.type("mosaic up")
    _write_files(tmp_path)
    try:
        train = "--env-id CartPole-v1 --total-timesteps 4096 --name cp-lr"
        for seed in (1, 2):
            made.type(f"mosaic train ppo {train} --seed {seed}")
        run_dir = Path(made.type("mosaic open last --path").strip())
        # The pages' own name for a run that was made without a daemon.
        shutil.copytree(run_dir, tmp_path / "runs" / "ppo-1")
        model = run_dir / "checkpoints" / "step-4096.cleanrl_model"
        shutil.copy(model, tmp_path / "ppo.cleanrl_model")
        yield made
    finally:
        made.type("mosaic down --stop-runs")


def _write_files(folder: Path) -> None:
    for name, page, mark in (
        ("two.sh", "scripts", "@phases"),
        ("job.json", "curriculum", '"run_name"'),
        ("my.asl", "bdi-plans", "@trust"),
        ("keys.txt", "play", "idle"),
    ):
        text = (GUIDES / f"{page}.md").read_text()
        block = next(block for _, block in _BLOCK.findall(text) if mark in block)
        (folder / name).write_text(block)
    write_script(folder / "src" / "cleanrl", "mini")


def _commands(guide: str) -> list[str]:
    lines = []
    for language, block in _BLOCK.findall((GUIDES / f"{guide}.md").read_text()):
        if language in ("", "bash", "sh") and "#!/" not in block:
            joined = block.replace("\\\n", " ")
            # Without what a page says beside a command.
            lines += [line.split("  #")[0].strip() for line in joined.splitlines()]
    shown = [line for line in lines if line.startswith(_STARTS)]
    kept = [line for line in shown if not any(re.search(out, line) for out in _LEFT_OUT)]
    return [line if guide in _WHOLE else _shorter(line) for line in kept]


def _shorter(line: str) -> str:
    for flag, most in _SMALLER.items():
        line = re.sub(rf"{flag} (\d+)", lambda m, f=flag, n=most: f"{f} {min(n, int(m[1]))}", line)
    if "--resume" in line:
        return line
    return re.sub(
        r"--total-timesteps (\d+)",
        lambda match: f"--total-timesteps {min(_MOST_STEPS, int(match[1]))}",
        line,
    )


def _filled(line: str, reader: Reader) -> str:
    """The line with what stands for a reader's own runs and machine."""
    if not hardware.probe_gpus():
        line = re.sub(r" --gpus \d+", "", line)
    if not _ONES_OWN_RUN.search(line):
        return line
    listed = reader.type("mosaic runs").splitlines()[1:]
    ids = [row.split("\t")[0] for row in listed if "cp-lr" in row]
    given = iter(ids)
    # A page may name more runs than there are; each is used once.
    line = _ONES_OWN_RUN.sub(lambda _: next(given, ""), line)
    return " ".join(line.split())


def test_every_guide_is_followed() -> None:
    """By this test or by another one, which is there."""
    pages = {path.stem for path in GUIDES.glob("*.md")}
    assert pages == {*FOLLOWED, *ELSEWHERE}
    assert [test for test in ELSEWHERE.values() if not (ROOT / test).exists()] == []


# A page with several compilations takes its time; each command has a limit of its own.
# Of the whole page, beside whatever else the machine does: alone it takes some minutes.
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("guide", FOLLOWED)
def test_a_guide_can_be_followed(guide: str, reader: Reader) -> None:
    """Every command of the page works in the order in which it stands there."""
    commands = _commands(guide)
    assert commands, f"{guide}.md shows no command"
    for line in commands:
        if line.startswith("pip install -e "):
            name = line.split()[-1]
            workers = {name: f"{name}:get_worker_metadata"}
            # As pip leaves it, without a change of the environment that the tests run in.
            install_package(reader.folder / name, f"{name}-worker", workers)
        else:
            reader.type(_filled(line, reader))
