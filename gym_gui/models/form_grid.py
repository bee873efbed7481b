"""The grid of a train form: what is varied, and the runs that come of it."""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from gym_gui.models.train_draft import TrainDraft
from mosaic.config.model import TrainRunConfig
from mosaic.experiments.plan import grid_points, make_plan, varied
from mosaic.presenting import formatting
from mosaic.records import RunRecord

Arguments = Sequence[Mapping[str, Any]] | None
# A parameter begins where a name and an equals sign follow a separator: values have commas too.
_BETWEEN = re.compile(r"[;\n]+|\s+(?=[A-Za-z_-]+\s*=)")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


def read_lines(text: str) -> list[str]:
    """`learning_rate=1e-3,3e-4; num_envs=4,8` as one entry for each parameter."""
    return [line.strip() for line in _BETWEEN.split(text) if line.strip()]


def grid_configs(draft: TrainDraft, text: str, arguments: Arguments) -> list[TrainRunConfig]:
    """Every run of the form: each combination of what is varied, with each seed.

    Raises:
        InvalidConfigError: With every problem.
    """
    points = grid_points(read_lines(text), arguments, draft.algo)
    seeds = [draft.seed + offset for offset in range(max(1, draft.seeds))]
    configurations = varied(draft.config(draft.seed), points, declares=True)
    return make_plan(experiment_name(draft), configurations, seeds).runs()


def experiment_name(draft: TrainDraft) -> str:
    """The run's name as an experiment can have it, or one made of what is trained and when."""
    given = _NOT_IN_A_NAME.sub("-", draft.run_name).strip("-._")
    if given:
        return given[:60]
    moment = time.strftime("%m%d-%H%M%S")
    return _NOT_IN_A_NAME.sub("-", f"{draft.algo}-{draft.env_id}-{moment}")[-60:].strip("-._")


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
