"""After the search: the best trials again with fresh seeds, and the best one for good.

The best of many noisy values is the luckiest as well as the best: the search promises too much.
How much, only seeds that the search has not seen can say.
"""

from collections.abc import Callable, Sequence
from statistics import fmean

import numpy as np

from mosaic.client import TrainerClient
from mosaic.client.experiments import Submitted, find_experiment, submit_experiment
from mosaic.config import build
from mosaic.config.model import TrainRunConfig
from mosaic.curves.names import RETURN
from mosaic.errors import InvalidArgumentError, RunNotFoundError
from mosaic.experiments.plan import TAG, ExperimentPlan, identity, make_plan, varied
from mosaic.experiments.summary import EVALUATION_TAG
from mosaic.records import RunRecord
from mosaic.statistics import aggregates
from mosaic.statistics.intervals import interval
from mosaic.sweep.plan import SweepPlan, trouble
from mosaic.sweep.reading import read_curve
from mosaic.sweep.results import Confirmed, Search, TrialRecord

Say = Callable[[str], None]


def confirmation_name(sweep_id: str) -> str:
    """The experiment of the best trials with fresh seeds."""
    return f"confirm-{sweep_id}"


def best_name(sweep_id: str) -> str:
    """The experiment of the best settings with fresh seeds."""
    return f"best-{sweep_id}"


def confirmation(search: Search, top: int, seeds: int) -> ExperimentPlan:
    """The best trials, each with seeds that the search has not seen.

    Raises:
        InvalidArgumentError: No trial has a value.
    """
    chosen = search.complete[:top]
    if not chosen:
        raise InvalidArgumentError(f"no trial of the sweep {search.sweep_id} has a value yet")
    first = search.plan.seed(search.plan.seeds)
    configs = [_config(search.plan, trial) for trial in chosen]
    return make_plan(confirmation_name(search.sweep_id), configs, range(first, first + seeds))


def confirm(
    trainer: TrainerClient, search: Search, say: Say, *, top: int = 3, seeds: int = 5
) -> list[Confirmed]:
    """Train the best trials with fresh seeds and wait for them; the best first.

    Interrupted, it can be called again: nothing is trained twice.

    Raises:
        InvalidArgumentError: No trial has a value.
    """
    plan = confirmation(search, top, seeds)
    say(f"confirming {len(plan.configurations)} trials with {seeds} fresh seeds each")
    made = submit_experiment(trainer, plan)
    records = {run_id: trainer.wait(run_id) for run_id in (*made.found, *made.added)}
    found = []
    for trial, config in zip(search.complete[:top], plan.configurations, strict=True):
        own = [run for run in records.values() if _same(trainer, run, config)]
        scores = _scores(trainer, search.plan, own)
        if scores:
            found.append(_confirmed(trial, scores))
        say(_sentence(trial, scores, own))
    sign = -1 if search.plan.maximise else 1
    return sorted(found, key=lambda one: sign * one.mean)


def kept(confirmed: Sequence[Confirmed]) -> list[dict[str, object]]:
    """A confirmation as a study keeps it; `read_confirmed` reads it back."""
    return [{**vars(one), "scores": list(one.scores)} for one in confirmed]


def train_best(trainer: TrainerClient, search: Search, seeds: int = 5) -> Submitted:
    """Train the best settings with seeds that neither search nor confirmation have seen.

    Raises:
        InvalidArgumentError: No trial has a value.
    """
    best = search.best
    if best is None:
        raise InvalidArgumentError(f"no trial of the sweep {search.sweep_id} has a value yet")
    first = search.plan.seed(search.plan.seeds)
    try:
        confirmed, _ = find_experiment(trainer, confirmation_name(search.sweep_id), "experiment")
        first = max(first, *(seed + 1 for seed in confirmed.seeds))
    except RunNotFoundError:
        pass  # nothing was confirmed: those seeds are still fresh
    config = _config(search.plan, best)
    plan = make_plan(best_name(search.sweep_id), [config], range(first, first + seeds))
    return submit_experiment(trainer, plan)


def _config(plan: SweepPlan, trial: TrialRecord) -> TrainRunConfig:
    [config] = varied(plan.config, [trial.params], declares=plan.nested)
    return config


def _same(trainer: TrainerClient, run: RunRecord, config: TrainRunConfig) -> bool:
    mine, other = identity(trainer.config(run.run_id)), identity(config.document())
    return mine._replace(seed=0) == other._replace(seed=0)


def _scores(
    trainer: TrainerClient, plan: SweepPlan, runs: Sequence[RunRecord]
) -> tuple[float, ...]:
    """The objective of each run that did all it was asked to do."""
    done = [run for run in runs if not trouble([run])]
    objective = plan.objective
    if objective.evaluates:
        values = [_played(trainer, plan, run) for run in done]
    else:
        tag = objective.curve_tag
        values = [objective.score(read_curve(trainer, run.run_id, tag)) for run in done]
    return tuple(value for value in values if value is not None and np.isfinite(value))


def _played(trainer: TrainerClient, plan: SweepPlan, run: RunRecord) -> float | None:
    # Not under the experiment's own tag: an evaluation is not one of its trainings.
    name = next(tag.removeprefix(TAG) for tag in run.tags if tag.startswith(TAG))
    config = build.evaluate(run, episodes=plan.episodes, tags=[EVALUATION_TAG + name])
    key = f"{run.run_id} confirmation"
    played = trainer.submit(config, idempotency_key=key, parent_run_id=run.run_id)
    return trainer.wait(played.run_id).metrics.get(RETURN)


def _confirmed(trial: TrialRecord, scores: tuple[float, ...]) -> Confirmed:
    assert trial.value is not None
    ends = interval(aggregates.mean, [np.array(scores)])
    return Confirmed(trial.number, trial.value, scores, fmean(scores), ends)


def _sentence(trial: TrialRecord, scores: Sequence[float], runs: Sequence[RunRecord]) -> str:
    if not scores:
        why = trouble(runs) or "its runs have no value"
        return f"trial {trial.number}: not confirmed, {why}"
    return (
        f"trial {trial.number}: {fmean(scores):,.4g} with {len(scores)} fresh seeds, "
        f"{trial.value:,.4g} in the search"
    )
