"""A sweep as plain data: what to run, under which names, and how a trial ended."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mosaic.config import build
from mosaic.config.flags import as_words
from mosaic.config.model import TrainRunConfig, WorkerRunConfig
from mosaic.curves.members import NUM_SEEDS, VMAP_SWEEP, Member, member_settings, sweep_text
from mosaic.records import Outcome, RunRecord
from mosaic.sweep.objective import Objective
from mosaic.sweep.space import Scalar, Space, space_from_dict, space_to_dict

SCHEMA_VERSION = 1
SAMPLERS, PRUNERS = ("tpe", "random", "grid"), ("median", "none")
_DONE = frozenset({Outcome.COMPLETED, Outcome.TIME_LIMIT, Outcome.BUDGET})
# Two failures may be bad luck of the proposals; three in a row are not.
_HOPELESS_AFTER = 3
# A trial that fails later than this got somewhere: its settings may be at fault, not the set-up.
_SECONDS = 30.0


@dataclass(frozen=True)
class SweepPlan:
    """Everything that is decided before the first trial.

    Attributes:
        config: The configuration of a run without the varied parameters; secrets by reference.
        nested: Whether parameters belong under `extras.algo_params` or into `extras` itself.
        space: What is varied.
        trials: How many trials in all.
        parallel: How many at the same time.
        seeds: Runs with different seeds in each trial; their mean counts.
        maximise: Whether more is better.
        race: Whether a trial's seeds are trained one after the other, and those of a trial that is
            behind the others after some of them are left out.
        prune_after: Trials that must have ended before any is pruned.
        episodes: Of an evaluation, when that is the objective.
        together: Whether all trials are members of one run, a single compiled program.
    """

    config: TrainRunConfig
    nested: bool
    space: Space
    trials: int = 20
    parallel: int = 1
    sampler: str = "tpe"
    pruner: str = "median"
    objective: Objective = field(default_factory=Objective)
    seeds: int = 1
    race: bool = False
    maximise: bool = True
    prune_after: int = 5
    episodes: int = 20
    together: bool = False

    @property
    def _worker(self) -> WorkerRunConfig:
        return self.config.worker

    def seed(self, number: int) -> int:
        """The training seed of a trial's run."""
        return self._worker.seed + number

    def to_dict(self) -> dict[str, object]:
        """As it is kept in the study."""
        return {
            "schema_version": SCHEMA_VERSION,
            **vars(self),
            "config": self.config.document(),
            "space": space_to_dict(self.space),
            "objective": vars(self.objective),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "SweepPlan":
        """From the study.

        Raises:
            ValueError: It was written by a newer MOSAIC.
        """
        facts = dict(document)
        version = facts.pop("schema_version", None)
        if version != SCHEMA_VERSION:
            raise ValueError(f"the sweep has schema {version}, this MOSAIC reads {SCHEMA_VERSION}")
        facts["config"] = build.read_config(facts["config"])
        facts["space"] = space_from_dict(facts["space"])
        facts["objective"] = Objective(**facts["objective"])
        return cls(**facts)

    def run_config(
        self, sweep_id: str, trial: int, number: int, params: Mapping[str, Scalar]
    ) -> TrainRunConfig:
        """The configuration of one run of a trial."""
        seed = self.seed(number)
        name = self.config.run_name or f"sweep of {self.subject}"
        suffix = f", seed {seed}" if self.seeds > 1 else ""
        return build.trial(
            self.config,
            seed=seed,
            # The number first: tables cut long names at their end.
            name=f"trial {trial}{suffix} · {name}",
            tags=[f"sweep={sweep_id}", f"trial={trial}"],
            parameters=params,
            declares=self.nested,
        )

    def joint_config(self, sweep_id: str, trials: Sequence[Mapping[str, Scalar]]) -> TrainRunConfig:
        """The configuration of the one run whose members are these trials."""
        name = self.config.run_name or f"sweep of {self.subject}"
        seeds = {NUM_SEEDS: self.seeds} if self.seeds > 1 else {}
        return build.trial(
            self.config,
            seed=self.seed(0),
            name=f"{len(trials)} trials · {name}",
            tags=[f"sweep={sweep_id}"],
            parameters={**seeds, VMAP_SWEEP: sweep_text(list(map(_numbers, trials)))},
            declares=self.nested,
        )

    def members_of(self, params: Mapping[str, Scalar]) -> list[Member]:
        """The members of the one run that are a trial: its settings with each seed."""
        settings = member_settings(_numbers(params))
        return [Member(self.seed(number), settings) for number in range(self.seeds)]

    @property
    def subject(self) -> str:
        """What is swept, for people."""
        return f"{self._algo} {self._worker.env_id}".strip()

    @property
    def _algo(self) -> str:
        return self._worker.algo or self.config.metadata.worker.type

    def train_command(self, params: Mapping[str, Scalar]) -> str:
        """The command that trains once more with these parameters."""
        worker, resources = self._worker, self.config.resources
        words = ["mosaic", "train", self._algo]
        for flag, value in (
            ("--env-id", worker.env_id),
            ("--total-timesteps", worker.total_timesteps),
            ("--seed", self.seed(0)),
        ):
            if value not in (None, ""):
                words += [flag, str(value)]
        for flag, asked, usual in (
            ("--cpus", resources.cpus.requested, 1),
            ("--gpus", resources.gpus.requested, 0),
        ):
            if asked != usual:
                words += [flag, str(asked)]
        fixed = worker.extras.algo_params if self.nested else {}
        for name, given in {**fixed, **params}.items():
            words += as_words(name, given)
        return shlex.join(words)


def _numbers(params: Mapping[str, Scalar]) -> dict[str, float]:
    """The parameters of a member of one program, which takes nothing but real numbers."""
    return {name: value for name, value in params.items() if isinstance(value, int | float)}


def run_key(sweep_id: str, trial: int, number: int, evaluation: bool = False) -> str:
    """The idempotency key of a run: submitting it again after an interruption finds it."""
    # The first run's key is a ULID and so becomes its id: the study's folder is known before.
    if not trial and not number and not evaluation:
        return sweep_id
    kind = "eval" if evaluation else "train"
    return f"sweep={sweep_id} trial={trial} run={number} {kind}"


def trouble(records: Sequence[RunRecord]) -> str:
    """Why a trial cannot count; empty if it still can."""
    for record in records:
        if record.ended and record.outcome not in _DONE:
            reason = record.reason or "no reason given"
            return f"run {record.run_id} ended {record.outcome}: {reason}"
    return ""


def all_ended(records: Sequence[RunRecord]) -> bool:
    """Whether no run of a trial is alive."""
    return all(record.ended for record in records)


@dataclass(frozen=True)
class Settled:
    """How a trial ended, as far as the decision to continue goes.

    Attributes:
        state: `complete`, `pruned` or `fail`.
        seconds: How long its runs trained; 0 if none began.
        reason: Why it failed.
    """

    state: str
    seconds: float = 0.0
    reason: str = ""


def hopeless(settled: Sequence[Settled]) -> str:
    """Why no further trial should start; empty if one should.

    Args:
        settled: The trials that have ended, in the order in which they did.
    """
    first, last = settled[:_HOPELESS_AFTER], settled[-_HOPELESS_AFTER:]
    if len(first) < _HOPELESS_AFTER:
        return ""
    if all(trial.state == "fail" for trial in first):
        return f"the first {_HOPELESS_AFTER} trials failed: {last[-1].reason}"
    if all(trial.state == "fail" and trial.seconds < _SECONDS for trial in last):
        return (
            f"the last {_HOPELESS_AFTER} trials died within {_SECONDS:.0f} seconds: "
            f"{last[-1].reason}"
        )
    return ""
