"""What people mistype is answered with what was wrong and what helps, before anything exists."""

import io
import json
import os
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.trainer import trainers
from support.upstream import write_script

from mosaic.cli.main import main
from mosaic.client import TrainerClient

DATA = Path(__file__).parents[1] / "data" / "wrong_inputs.toml"


@dataclass(frozen=True)
class WrongInput:
    """One thing that is typed, and what the answer has to say."""

    about: str
    type: str
    says: list[str]
    code: int = 2
    settings: dict[str, str] = field(default_factory=dict)


INPUTS = [WrongInput(**item) for item in tomllib.loads(DATA.read_text())["input"]]


@dataclass(frozen=True)
class Place:
    """A home with one run that has ended, and a folder with files of every wrong kind."""

    folder: Path
    home: Path
    done: str

    def fill(self, text: str) -> str:
        """The text with the names of this place in it."""
        return text.replace("{folder}", str(self.folder)).replace("{done}", self.done)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, python_path: str) -> Iterator[Place]:
    """One daemon for all inputs: none of them may leave a run behind."""
    folder = tmp_path_factory.mktemp("wrong")
    _write_files(folder)
    with trainers(tmp_path_factory.mktemp("homes"), python_path) as make:
        trainer = make().start()
        config = {"worker": "example", "algo": "example", "total_timesteps": 20}
        run = trainer.client.submit(json.dumps(config))
        trainer.ended(run.run_id)
        yield Place(folder, trainer.home.root, run.run_id)


def _write_files(folder: Path) -> None:
    wrong = {"run_nam": "x", "artifacts": {"notes": 1}, "metadata": {"worker": {"type": "cleanrl"}}}
    texts = {
        "keys.txt": "left x5\n",
        "badkeys.txt": "left\nsideways\n",
        "object.json": "{}",
        "list.json": "[1]",
        "cut.json": '{"run_name": "x",',
        "wrong.json": json.dumps(wrong),
        "stages.json": json.dumps([{"env_id": "Cart-v1"}]),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "binary").write_bytes(b"\xff\xfe\x00")
    write_script(folder / "upstream", "tiny")


@pytest.mark.parametrize("wrong", INPUTS, ids=[item.about for item in INPUTS])
def test_a_mistake_is_answered_with_help(
    place: Place,
    wrong: WrongInput,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A sentence with what was wrong and what is allowed; no traceback, no run."""
    monkeypatch.chdir(place.folder)
    monkeypatch.setenv("MOSAIC_HOME", str(place.home))
    for name in [name for name in os.environ if name.startswith(("MOSAIC_SETTING_", "CLEANRL_"))]:
        monkeypatch.delenv(name)
    for name, value in wrong.settings.items():
        monkeypatch.setenv(name, place.fill(value))
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(SystemExit) as end:
        main(shlex.split(place.fill(wrong.type)))
    # Of the file descriptors: some commands leave the answer to another program.
    text = "".join(capfd.readouterr())
    assert end.value.code == wrong.code, text
    assert "Traceback" not in text
    assert "unexpected" not in text
    said = " ".join(text.split())
    assert [word for word in wrong.says if word not in said] == [], text
    with TrainerClient.connect(str(place.home)) as trainer:
        assert trainer.list_runs(page_size=5).total == 1, "nothing was created"


def test_there_are_enough_of_them() -> None:
    """Every command that takes something a person can mistype has its place in the list."""
    assert len(INPUTS) >= 85
    assert len({item.type for item in INPUTS}) >= len(INPUTS) - 1
    commands = {item.type.split()[0] for item in INPUTS}
    assert {"train", "sweep", "submit", "play", "replay", "eval", "up", "import"} <= commands
