"""The grid of a train form: what is varied, and the runs that come of it."""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from gym_gui.models.train_draft import TrainDraft
from mosaic.config.model import TrainRunConfig
from mosaic.experiments.plan import grid_points, make_plan, refusal, varied
from mosaic.presenting import formatting
from mosaic.records import RunRecord
from mosaic.workers.facts import ArgumentFacts

Arguments = Sequence[ArgumentFacts] | None
# A parameter begins where a name and an equals sign follow a separator: values have commas too.
_BETWEEN = re.compile(r"[;\n]+|\s+(?=[A-Za-z_-]+\s*=)")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


def read_lines(text: str) -> list[str]:
    """`learning_rate=1e-3,3e-4; num_envs=4,8` as one entry for each parameter."""
    return [line.strip() for line in _BETWEEN.split(text) if line.strip()]


def grid_configs(draft: TrainDraft, arguments: Mapping[str, Arguments]) -> list[TrainRunConfig]:
    """Every run of the form: each combination of what is compared, with each seed.

    Args:
        draft: What is in the form.
        arguments: The arguments of each of its algorithms.

    Raises:
        InvalidConfigError: With every problem.
    """
    configurations: list[TrainRunConfig] = []
    for algo in (draft.algo, *draft.more_algos):
        _refuse_unknown(draft, algo, arguments.get(algo))
        lines = read_lines(draft.vary)
        points = grid_points(lines, arguments.get(algo), algo) if lines else [{}]
        for env_id in (draft.env_id, *draft.more_envs):
            config = replace(draft, algo=algo, env_id=env_id).config(draft.seed)
            configurations += varied(config, points, declares=True)
    seeds = [draft.seed + offset for offset in range(max(1, draft.seeds))]
    return make_plan(experiment_name(draft), configurations, seeds).runs()


def _refuse_unknown(draft: TrainDraft, algo: str, arguments: Arguments) -> None:
    """A parameter that one algorithm has and another has not would be dropped in silence."""
    known = None if arguments is None else {one["name"] for one in arguments}
    strange = [] if known is None else [name for name in draft.params if name not in known]
    if strange:
        raise refusal(f"{algo} has no parameter {strange[0]}: reset it, or train {algo} alone")


def experiment_name(draft: TrainDraft) -> str:
    """The run's name as an experiment can have it, or one made of what is trained and when."""
    given = _NOT_IN_A_NAME.sub("-", draft.run_name).strip("-._")
    if given:
        return given[:60]
    moment = time.strftime("%m%d-%H%M%S")
    algos = "-".join((draft.algo, *draft.more_algos))
    return _NOT_IN_A_NAME.sub("-", f"{algos}-{draft.env_id}-{moment}")[-60:].strip("-._")


def forecast(count: int, draft: TrainDraft, runs: Iterable[RunRecord], slots: int) -> str:
    """`20 runs, about 2 h`: from earlier runs of the same algorithm in the same environment."""
    speeds = [
        run.progress.step / (run.finished_at - run.started_at)
        for run in runs
        if run.completed
        and (run.algo, run.env_id) == (draft.algo, draft.env_id)
        and run.started_at
        and run.finished_at
        and run.finished_at > run.started_at
        and run.progress.step
    ]
    if not speeds or not draft.total_timesteps:
        return f"{count:,} runs"
    seconds = draft.total_timesteps / fmean(speeds) * count / max(1, min(slots, count))
    return f"{count:,} runs, about {formatting.duration(seconds)}"
