"""Two homes with a real daemon each, and commands typed in them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from cli.conftest import Command
from support.trainer import Trainer


@dataclass
class Place:
    """A home, its daemon and its user."""

    trainer: Trainer
    mosaic: Command

    def tree(self, run_id: str) -> dict[str, bytes]:
        """Every file of a run's directory."""
        folder = self.trainer.home.run_dir(run_id)
        return {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name not in ("supervisor.lock", "imported.json")
        }

    def runs(self) -> list[str]:
        """The ids that `mosaic runs` lists."""
        return [run["run_id"] for run in self.mosaic.json("runs")["runs"]]

    def leftovers(self) -> list[str]:
        """Whatever lies beside the runs."""
        return sorted(path.name for path in self.trainer.home.runs.iterdir() if path.name[0] == ".")


@pytest.fixture
def make_place(make_trainer: Callable[..., Trainer]) -> Callable[..., Place]:
    """Makes homes whose daemons run."""

    def make(name: str, **settings: str) -> Place:
        trainer = make_trainer(name, **settings).start()
        home = str(trainer.home.root)
        return Place(trainer, Command(trainer.environment(MOSAIC_HOME=home)))

    return make


@pytest.fixture
def archive(make_place: Callable[..., Place], tmp_path: Path) -> tuple[Place, str, Path]:
    """An ended run of the first home, and the file it was exported to."""
    place = make_place("one")
    run_id = place.trainer.submit("short")
    place.trainer.ended(run_id)
    file = tmp_path / "run.mosaic.tar.gz"
    place.mosaic("export", run_id, "-o", str(file))
    return place, run_id, file
