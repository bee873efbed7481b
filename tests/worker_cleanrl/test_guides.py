"""The guides and the README cannot rot: every command they show is read, and trainings are checked.

Commands of `mosaic` are parsed by the real command line. Whatever would train, evaluate or play a
policy is given to its dry run, which checks every flag, environment and file and starts nothing.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from support import harness
from support.upstream import write_script

from mosaic.cli.main import cli, main
from mosaic.workers.algorithms import find_algorithm

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(mosaic [^`]+)`")
_FICTIONAL = {"darts": "example", "ALGO": "ppo", "cleanrl:mini": "cleanrl:tiny"}


@dataclass(frozen=True)
class Shown:
    """A command on a page."""

    page: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}: {shlex.join(self.words)}"


def _shown() -> Iterator[Shown]:
    for path in PAGES:
        text = path.read_text()
        lines = [
            line
            for language, block in _BLOCK.findall(text)
            if language in ("", "bash", "sh")
            for line in block.replace("\\\n", " ").splitlines()
        ]
        for line in (*lines, *_INLINE.findall(_BLOCK.sub("", text))):
            yield from (Shown(path.name, words) for words in _commands(line))


def _commands(line: str) -> Iterator[tuple[str, ...]]:
    for part in re.split(r"&&|\|", line):
        try:
            words = tuple(_FICTIONAL.get(word, word) for word in shlex.split(part, comments=True))
        except ValueError:
            continue
        if words[:1] == ("mosaic",) or words[:2] == ("python", "-m"):
            yield words


SHOWN = sorted(set(_shown()), key=str)
MOSAIC = [shown for shown in SHOWN if shown.words[0] == "mosaic"]
WORKER = [shown for shown in SHOWN if shown.words[2:3] == ("cleanrl_worker.cli",)]
TRAININGS = [
    shown for shown in MOSAIC if shown.words[1:2] == ("train",) and "--resume" not in shown.words
]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that the guides take for granted."""
    folder = tmp_path_factory.mktemp("workplace")
    flags = ("--algo", "ppo", "--env-id", "CartPole-v1", "--total-timesteps")
    harness.run(folder / "runs" / "ppo-1", *flags, "4096")
    harness.run(folder / "warm-up", *flags, "2048")
    model = folder / "runs" / "ppo-1" / "checkpoints" / "step-4096.cleanrl_model"
    (folder / "ppo.cleanrl_model").write_bytes(model.read_bytes())
    write_script(folder / "upstream", "tiny")
    (folder / "two.sh").write_text(_block("scripts.md", "@phases"))
    (folder / "job.json").write_text(_block("curriculum.md", '"run_name"'))
    (folder / "my.asl").write_text(_block("bdi-plans.md", "@trust"))
    (folder / "keys.txt").write_text(_block("play.md", "idle"))
    for name in ("both.mosaic.tar.gz", "FILE", "laptop.json", "cert.pem", "cert.key", "key.pem"):
        (folder / name).write_bytes(b"")
    (folder / "runs" / "dqn-1").mkdir()
    # Where a page says RUN, the reader has one.
    shutil.copytree(folder / "runs" / "ppo-1", folder / "RUN")
    (folder / "expert.npz").write_bytes(b"")
    return folder


def _block(page: str, mark: str) -> str:
    text = (ROOT / "docs" / "guides" / page).read_text()
    return str(next(block for _, block in _BLOCK.findall(text) if mark in block))


def test_the_guides_show_what_the_worker_can_do() -> None:
    """Train, resume, evaluate, curriculum, interactive, script, dry run, watch, play, replay."""
    said = "\n".join(map(str, SHOWN))
    for needed in (
        "mosaic train ppo --env-id MiniGrid-Empty-8x8-v0",
        "mosaic eval last --episodes 20 --video",
        "mosaic train ppo --resume last --total-timesteps",
        "--curriculum BABYAI_DOORKEY_CURRICULUM",
        "--interactive",
        "mosaic script",
        "mosaic train ppo --env-id CartPole-v1 --total-timesteps 100000 --dry-run",
        "mosaic watch RUN --frames",
        "mosaic watch RUN --preview",
        "mosaic play",
        "mosaic replay",
    ):
        assert needed in said, f"no guide shows {needed}"


@pytest.mark.parametrize("shown", MOSAIC, ids=str)
def test_the_command_line_understands_what_is_shown(
    shown: Shown, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every `mosaic …` of a page names a command, and its arguments are read without complaint."""
    monkeypatch.chdir(workplace)
    words = shown.words[1:]
    if words[0] == "--connect":
        # For every command: which daemon to use.
        words = words[2:]
    name, *arguments = words
    if name == "…":
        return  # any command may follow
    command = cli.get_command(click.Context(cli), name)
    assert command is not None, f"{shown}: there is no such command"
    if arguments:  # a bare name is talked about, not called
        # `--help` is printed while the words are read.
        with suppress(click.exceptions.Exit):
            command.make_context(name, arguments)


@pytest.mark.parametrize("shown", TRAININGS, ids=str)
def test_trainings_that_are_shown_pass_their_dry_run(
    shown: Shown,
    workplace: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A user who copies a training from a guide gets one."""
    _, _, *arguments = shown.words
    monkeypatch.setenv("CLEANRL_HOME", str(workplace / "upstream"))
    if not arguments or not find_algorithm(arguments[0]).worker.dry_run:
        return
    monkeypatch.chdir(workplace)
    monkeypatch.setenv("MOSAIC_HOME", str(workplace / "home"))
    with pytest.raises(SystemExit) as end:
        main(["train", *(word for word in arguments if word != "--detach"), "--dry-run"])
    assert end.value.code == 0, capsys.readouterr()


def test_commands_of_the_worker_pass_their_dry_run(workplace: Path) -> None:
    """Every `python -m cleanrl_worker.cli …` of a page is right about its flags and files."""
    assert len(WORKER) > 10
    for number, shown in enumerate(WORKER):
        words = [_at_the_workplace(word, workplace) for word in shown.words[3:]]
        split = words.index("--") if "--" in words else len(words)
        words.insert(split, "--dry-run")
        variables = {"CLEANRL_HOME": str(workplace / "upstream")}
        harness.run(workplace / f"dry-{number}", *words, **variables)


def _at_the_workplace(word: str, workplace: Path) -> str:
    word = word.replace("$MOSAIC_RUN_DIR", str(workplace))
    return str(workplace / word) if (workplace / word).exists() else word


@pytest.mark.parametrize("module", ["install_extras", "spade_bdi_rl_worker"])
def test_other_programs_that_are_shown_read_their_flags(module: str, workplace: Path) -> None:
    """`install_extras` knows the sets that are named, and the Spade worker its settings."""
    shown = [item for item in SHOWN if len(item.words) > 2 and module in item.words[2]]
    assert shown
    for item in shown:
        check = "--check" if module == "install_extras" else "--dry-run"
        done = subprocess.run(
            [sys.executable, *item.words[1:], *({check} - set(item.words))],
            capture_output=True,
            text=True,
            env={"MOSAIC_SECRET_PASSWORD": "x", "MOSAIC_HOME": str(workplace / "home")},
            check=False,
        )
        refused = done.returncode == 2 or (module != "install_extras" and done.returncode)
        assert not refused, f"{item}: {done.stdout}{done.stderr}"
