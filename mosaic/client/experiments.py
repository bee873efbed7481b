"""Experiments of a daemon: submitted, listed and handled as a whole."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mosaic.client.sdk import TrainerClient
from mosaic.config import build
from mosaic.config.suggest import did_you_mean
from mosaic.errors import (
    InvalidConfigError,
    InvalidTransitionError,
    Problem,
    RunFileError,
    RunNotFoundError,
)
from mosaic.experiments.plan import TAG, ExperimentPlan, identity, refusal, with_seeds
from mosaic.experiments.summary import (
    EVALUATION_TAG,
    MARKS,
    ExperimentRecord,
    experiment_of,
    one,
    summarise,
)
from mosaic.records import RunRecord

_PAGE = 500


@dataclass(frozen=True)
class Submitted:
    """What became of a plan: the runs that were there, and those that were added."""

    found: tuple[str, ...]
    added: tuple[str, ...]


def submit_experiment(
    trainer: TrainerClient, plan: ExperimentPlan, *, priority: int = 0
) -> Submitted:
    """Submit the runs of an experiment that it does not have yet.

    Submitting a plan again adds what is missing, for example after an interruption or with more
    seeds, and repeats nothing.

    Raises:
        InvalidConfigError: A configuration is refused; nothing was submitted.
    """
    there = _identities(trainer, _members(trainer, TAG, plan.name))
    wanted = [(config, identity(config.document())) for config in plan.runs()]
    new = [config for config, mark in wanted if mark not in there]
    problems: dict[Problem, None] = {}
    # One of each configuration: seeds differ in a number that every worker takes.
    for config in new[: len(plan.configurations)]:
        # Before the first is submitted: half an experiment is worth nothing.
        problems.update(dict.fromkeys(trainer.validate(config)))
    if problems:
        raise InvalidConfigError(list(problems))
    added = tuple(trainer.submit(config, priority=priority).run_id for config in new)
    return Submitted(tuple(there[mark] for _, mark in wanted if mark in there), added)


def add_seeds(
    trainer: TrainerClient, name: str, count: int, *, priority: int = 0
) -> tuple[str, ...]:
    """Train every configuration of an experiment with so many seeds more; the new runs' ids.

    Raises:
        RunNotFoundError: There is no such experiment.
    """
    experiment, members = find_experiment(trainer, name)
    documents = [trainer.config(run.run_id) for run in members]
    first = max(experiment.seeds, default=0) + 1
    more = with_seeds(documents, range(first, first + count))
    return tuple(trainer.submit(config, priority=priority).run_id for config in more)


def evaluate_experiment(
    trainer: TrainerClient, name: str, *, episodes: int = 20, seed: int = 1, video: bool = False
) -> tuple[str, ...]:
    """Play the newest policy of every run of an experiment; the evaluations' ids.

    They belong together as `evaluation=NAME` and are compared like the experiment itself.

    Args:
        trainer: The daemon that has it.
        name: The experiment.
        episodes: How many each policy plays.
        seed: Of the evaluations, the same for all: every policy plays the same episodes.
        video: Record every episode.

    Raises:
        RunNotFoundError: There is no such experiment.
        InvalidConfigError: None of its runs has saved a policy.
    """
    _, members = find_experiment(trainer, name)
    able = [run for run in members if run.newest_checkpoint("policy") is not None]
    if not able:
        raise refusal(f"no run of {name} has saved a policy yet")
    tags = [EVALUATION_TAG + name]
    return tuple(
        trainer.submit(
            build.evaluate(run, episodes=episodes, seed=seed, video=video, tags=tags),
            parent_run_id=run.run_id,
        ).run_id
        for run in able
    )


def list_experiments(trainer: TrainerClient) -> list[ExperimentRecord]:
    """Every experiment and sweep, newest first."""
    runs = {run.run_id: run for mark in MARKS for run in _tagged(trainer, mark)}
    return summarise(runs.values())


def find_experiment(
    trainer: TrainerClient, name: str, kind: str = ""
) -> tuple[ExperimentRecord, list[RunRecord]]:
    """An experiment by its name, or a sweep by its id, with its runs.

    Args:
        trainer: The daemon that has it.
        name: Its name. The evaluations of an experiment have the name of the experiment.
        kind: `experiment`, `sweep` or `evaluation`; the first that has the name by default.

    Raises:
        RunNotFoundError: There is none; the message has the nearest name.
    """
    for mark, its_kind in MARKS.items():
        members = _members(trainer, mark, name) if kind in ("", its_kind) else []
        if members:
            return one(its_kind, name, members), members
    known = [found.name for found in list_experiments(trainer) if kind in ("", found.kind)]
    hint = did_you_mean(name, known)
    raise RunNotFoundError(
        f"there is no {kind or 'experiment'} {name!r}{hint}; `mosaic experiment list` lists them"
    )


def for_each(
    runs: Sequence[RunRecord], fits: Callable[[RunRecord], bool], act: Callable[[str], object]
) -> int:
    """Do something with every run that fits; how many it was done with."""
    done = 0
    for run in runs:
        if not fits(run):
            continue
        try:
            act(run.run_id)
        except (InvalidTransitionError, RunNotFoundError):
            # It ended, or was deleted, since it was listed.
            continue
        done += 1
    return done


def _identities(trainer: TrainerClient, runs: Sequence[RunRecord]) -> dict[object, str]:
    found: dict[object, str] = {}
    for run in runs:
        try:
            found[identity(trainer.config(run.run_id))] = run.run_id
        except (RunFileError, KeyError):
            # A run whose configuration is damaged stands for nothing and is submitted again.
            continue
    return found


def _members(trainer: TrainerClient, mark: str, name: str) -> list[RunRecord]:
    wanted = (MARKS[mark], name)
    return [run for run in _tagged(trainer, mark + name) if experiment_of(run.tags) == wanted]


def _tagged(trainer: TrainerClient, text: str) -> list[RunRecord]:
    runs: list[RunRecord] = []
    token = ""
    while True:
        page, token, _ = trainer.list_runs(text=text, page_size=_PAGE, page_token=token)
        runs += page
        if not token:
            return runs
