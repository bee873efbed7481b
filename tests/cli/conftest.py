"""The real `mosaic` command, in the home of a real daemon."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.trainer import Trainer, trainers

MOSAIC = str(Path(sys.executable).with_name("mosaic"))


@dataclass
class Command:
    """Types commands for the user of one home."""

    environment: dict[str, str]

    def __call__(self, *words: str, code: int = 0, stdin: str | None = None) -> str:
        """Run a command that must end with `code`; everything it printed."""
        done = subprocess.run(
            [MOSAIC, *words],
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        text = done.stdout + done.stderr
        assert done.returncode == code, f"mosaic {' '.join(words)} -> {done.returncode}: {text}"
        return text if code else done.stdout

    def json(self, *words: str, code: int = 0) -> Any:
        """The JSON a command prints."""
        return json.loads(self(*words, "--json", code=code))


@pytest.fixture(scope="package")
def warm_home(tmp_path_factory: pytest.TempPathFactory, python_path: str) -> Iterator[Trainer]:
    """A daemon that starts runs quickly, for tests that make runs of their own and leave others'.

    Its workers find Minari's data sets in the folder `datasets` beside the home.
    """
    folder = tmp_path_factory.mktemp("warm")
    with trainers(folder, python_path) as make:
        yield make(warm_start="true").start(MINARI_DATASETS_PATH=str(folder / "datasets"))


@pytest.fixture(scope="package")
def typed(warm_home: Trainer) -> Command:
    """The command, in that home."""
    folder = str(warm_home.home.root.parent / "datasets")
    home = str(warm_home.home.root)
    return Command(warm_home.environment(MOSAIC_HOME=home, MINARI_DATASETS_PATH=folder))


@pytest.fixture
def make_command(make_trainer: Callable[..., Trainer]) -> Callable[..., Command]:
    """A command for a home without a daemon; settings as for `make_trainer`."""

    def make(**settings: str) -> Command:
        trainer = make_trainer(**settings)
        return Command(trainer.environment(MOSAIC_HOME=str(trainer.home.root)))

    return make


@pytest.fixture
def mosaic(trainer: Trainer) -> Command:
    """A command for a home whose daemon runs."""
    return Command(trainer.environment(MOSAIC_HOME=str(trainer.home.root)))
