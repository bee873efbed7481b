"""Where a run comes from and what was made from it: forks, continuations, copies, evaluations."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mosaic.client.sdk import TrainerClient
from mosaic.config.flat import flat_settings
from mosaic.errors import MosaicError, RunNotFoundError
from mosaic.records import RunRecord

_PAGE = 500
# Where a run starts, what is written of it and how it is found: not what it learns with.
_NOT_LEARNING = frozenset(
    {"checkpoint_path", "policy_path", "keep_checkpoints", "requirements", "fastlane_video_mode"}
    # Of a session with a policy: who plays it, and the keys that were pressed.
    | {"policy_worker", "script", "fps"}
)


@dataclass(frozen=True)
class Branch:
    """A run in its tree.

    Attributes:
        record: The run.
        changed: What it was told differently from its parent, such as `learning_rate=0.0001`.
        branches: The runs that were made from it, oldest first.
    """

    record: RunRecord
    changed: tuple[str, ...] = ()
    branches: tuple["Branch", ...] = ()

    @property
    def relation(self) -> str:
        """What the run is to its parent, in words; empty for the first of all."""
        if not self.record.parent_run_id:
            return ""
        if self.record.mode == "resume_training":
            step = self.record.parent_step
            return "continues" if step is None else f"from step {step:,}"
        words = {"policy_eval": "evaluates", "verify": "verifies", "take_over": "plays with"}
        return words.get(self.record.mode, "repeats")

    def walk(self, depth: int = 0) -> Iterator[tuple[int, "Branch"]]:
        """This run and everything below it, each with its depth."""
        yield depth, self
        for branch in self.branches:
            yield from branch.walk(depth + 1)

    def to_dict(self) -> dict[str, object]:
        """The tree as JSON data."""
        record = self.record
        return {
            "run_id": record.run_id,
            "run_name": record.run_name,
            "mode": record.mode,
            "outcome": record.outcome,
            "parent_run_id": record.parent_run_id,
            "parent_step": record.parent_step,
            "changed": list(self.changed),
            "branches": [branch.to_dict() for branch in self.branches],
        }


def lineage(trainer: TrainerClient, run_id: str) -> Branch:
    """The whole tree that a run belongs to, from its first ancestor that is still here.

    Raises:
        RunNotFoundError: There is no such run.
    """
    return _grown(trainer, _first_ancestor(trainer, trainer.get(run_id)), set())


def _first_ancestor(trainer: TrainerClient, record: RunRecord) -> RunRecord:
    seen = {record.run_id}
    # An imported log may name anything as its parent, also itself.
    while record.parent_run_id and record.parent_run_id not in seen:
        seen.add(record.parent_run_id)
        try:
            record = trainer.get(record.parent_run_id)
        except RunNotFoundError:
            break
    return record


def _grown(trainer: TrainerClient, record: RunRecord, seen: set[str]) -> Branch:
    seen.add(record.run_id)
    made = [run for run in _children(trainer, record.run_id) if run.run_id not in seen]
    before = _settings(trainer, record.run_id) if made else {}
    branches = []
    for run in made:
        branch = _grown(trainer, run, seen)
        changed = _changes(before, _settings(trainer, run.run_id))
        branches.append(Branch(run, changed, branch.branches))
    return Branch(record, (), tuple(branches))


def _children(trainer: TrainerClient, run_id: str) -> list[RunRecord]:
    found: list[RunRecord] = []
    token = ""
    while True:
        page = trainer.list_runs(text=run_id, page_size=_PAGE, page_token=token, sort="created_at")
        # The search also finds the run itself, and runs with its id in their notes.
        found += [run for run in page.runs if run.parent_run_id == run_id]
        token = page.next_page_token
        if not token:
            return found


def _settings(trainer: TrainerClient, run_id: str) -> dict[str, object]:
    try:
        return _learning(trainer.config(run_id))
    except (MosaicError, KeyError):
        return {}  # a damaged or hand-made configuration has nothing to compare


def _learning(document: Mapping[str, object]) -> dict[str, object]:
    settings = flat_settings(document)
    return {name: value for name, value in settings.items() if name not in _NOT_LEARNING}


def _changes(before: Mapping[str, object], after: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(
        f"{name}={after[name]}" for name in sorted(after) if before.get(name) != after[name]
    )
