"""A home under fire: what must hold after every example, and how many examples there are."""

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, settings

from mosaic.errors import MosaicError
from mosaic.runs.ids import new_run_id
from support.trainer import Trainer

Test = TypeVar("Test", bound=Callable[..., None])


def examples(count: int, shrink: bool = False) -> Callable[[Test], Test]:
    """So many examples, the same ones everywhere and every time; the machine's speed is no matter.

    Shrinking repeats slow examples, so only the long proof does it.
    """
    phases = (Phase.explicit, Phase.generate, *((Phase.shrink,) if shrink else ()))
    return settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )


class FuzzedHome:
    """A real home with a daemon, and one ended run that nobody touches."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.untouched = trainer.ended(trainer.submit("thorough")).run_id
        self._seen = len(trainer.log())

    def revive(self) -> None:
        """Start a daemon if the last example, which failed, left none."""
        if not self.trainer.running:
            self.trainer.start()
        self._seen = len(self.trainer.log())

    def copies(self, count: int) -> list[str]:
        """New ended runs with the untouched one's files; the daemon learns of them at its start."""
        source = self.trainer.home.run_dir(self.untouched)
        made = [new_run_id() for _ in range(count)]
        for run_id in made:
            place = self.trainer.home.run_dir(run_id)
            shutil.copytree(source, place, symlinks=True)
            for name in ("events.jsonl", "config.json", "logs/stdout.log"):
                path = place / name
                path.write_text(path.read_text().replace(self.untouched, run_id))
        return made

    def ask_everything(self, run_id: str) -> None:
        """Every question about a run; a refusal in words is an answer too."""
        client = self.trainer.client
        questions: tuple[Callable[[], Any], ...] = (
            lambda: client.get(run_id),
            lambda: client.events(run_id),
            lambda: client.config(run_id),
            lambda: client.files(run_id),
            lambda: list(client.logs(run_id)),
            lambda: list(client.logs(run_id, stream="stderr", grep="a|b")),
            lambda: list(client.metrics(run_id)),
            lambda: list(client.episodes(run_id)),
            lambda: client.read_file(run_id, "config.json"),
            lambda: client.read_file(run_id, "checkpoints/last.json"),
            lambda: client.update(run_id, notes="fuzzed"),
        )
        for question in questions:
            answered(question)

    def is_well(self) -> None:
        """The daemon answers and lists, the untouched run is as it was, and a new one completes."""
        trainer = self.trainer
        listed = trainer.client.list_runs(page_size=500)[0]
        assert self.untouched in {record.run_id for record in listed}
        assert trainer.client.get(self.untouched).completed
        fresh = trainer.submit("short")
        assert trainer.ended(fresh).completed
        trainer.client.delete(fresh, purge=True)
        self.foreseen()

    def foreseen(self) -> None:
        """Nothing surprised the daemon: every fault has a place where it is expected."""
        said = self.trainer.log()
        fresh, self._seen = said[self._seen :], len(said)
        assert "Traceback" not in fresh, fresh[-4000:]

    def remove(self, run_ids: Iterable[str]) -> None:
        """Delete runs as a person would; what is not a run any more is removed by hand."""
        for run_id in run_ids:
            answered(lambda run_id=run_id: self.trainer.client.delete(run_id, purge=True))
            for folder in (self.trainer.home.runs, self.trainer.home.trash):
                clear(folder / run_id)


def answered(question: Callable[[], Any]) -> Any:
    """What a call gives, or None when it is refused in words of ours."""
    try:
        return question()
    except MosaicError as error:
        text = str(error)
        # What gRPC says when a handler raised something unforeseen, or nothing came back at all.
        for bad in ("UNKNOWN", "INTERNAL", "did not answer in time", "is gone"):
            assert bad not in text, text
        assert text.strip(), "a refusal says why"
        return None


def clear(path: Path) -> None:
    """Remove whatever is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
