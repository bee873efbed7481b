"""Runs of experiments as one row each. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated

from mosaic.experiments.plan import TAG
from mosaic.records import RunRecord, State
from mosaic.records.fields import Record

SWEEP_TAG = "sweep="
# The policies of several runs, played together.
EVALUATION_TAG = "evaluation="
MARKS = {TAG: "experiment", SWEEP_TAG: "sweep", EVALUATION_TAG: "evaluation"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentRecord(Record):
    """An experiment, a sweep, or the evaluations of several runs, as clients see it."""

    name: Annotated[str, "Its name; of a sweep, its id."]
    kind: Annotated[str, "`experiment`, `sweep` or `evaluation`."]
    run_ids: Annotated[tuple[str, ...], "Its runs, oldest first."]
    algos: Annotated[tuple[str, ...], "Algorithms."]
    env_ids: Annotated[tuple[str, ...], "Environments."]
    seeds: Annotated[tuple[int, ...], "Seeds."]
    completed: Annotated[int, "Runs that did all they were asked to do."]
    running: Annotated[int, "Runs that train or are paused."]
    queued: Annotated[int, "Runs that wait."]
    unsuccessful: Annotated[int, "Runs that failed, were cancelled or lost."]
    fraction: Annotated[float, "Share done, 0 to 1; an ended run counts as done."]
    eta_s: Annotated[float, "Seconds left; 0 if unknown or ended."]
    created_at: Annotated[float, "When its first run was submitted."]

    @property
    def ended(self) -> bool:
        """True once no run of it is alive."""
        return not self.running and not self.queued


def experiment_of(tags: Iterable[str]) -> tuple[str, str] | None:
    """The kind and the name of the experiment that a run belongs to; None for a run of its own."""
    for tag in tags:
        for mark, kind in MARKS.items():
            if tag.startswith(mark) and len(tag) > len(mark):
                return kind, tag[len(mark) :]
    return None


def summarise(runs: Iterable[RunRecord]) -> list[ExperimentRecord]:
    """Every experiment among these runs, newest first."""
    found: dict[tuple[str, str], list[RunRecord]] = {}
    for run in runs:
        mark = experiment_of(run.tags)
        if mark is not None:
            found.setdefault(mark, []).append(run)
    records = [one(kind, name, members) for (kind, name), members in found.items()]
    return sorted(records, key=lambda record: record.run_ids[0], reverse=True)


def one(kind: str, name: str, runs: Sequence[RunRecord]) -> ExperimentRecord:
    """One experiment."""
    ordered = sorted(runs, key=lambda run: run.run_id)
    ended = [run for run in ordered if run.ended]
    queued = [run for run in ordered if run.state is State.INIT]
    running = [run for run in ordered if run.live and run.state is not State.INIT]
    completed = sum(run.completed for run in ordered)
    return ExperimentRecord(
        name=name,
        kind=kind,
        run_ids=tuple(run.run_id for run in ordered),
        algos=_different(run.algo or run.worker for run in ordered),
        env_ids=_different(run.env_id for run in ordered),
        seeds=tuple(sorted({run.seed for run in ordered if run.seed is not None})),
        completed=completed,
        running=len(running),
        queued=len(queued),
        unsuccessful=len(ended) - completed,
        fraction=fmean(1.0 if run.ended else run.progress.fraction for run in ordered),
        eta_s=_time_left(ended, running, queued),
        created_at=min(run.created_at for run in ordered),
    )


def _different(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, values)))


def _time_left(
    ended: Sequence[RunRecord], running: Sequence[RunRecord], queued: Sequence[RunRecord]
) -> float:
    """Seconds until the last run ends, if as many run at the same time as now."""
    lengths = [
        run.finished_at - run.started_at
        for run in ended
        if run.completed and run.finished_at and run.started_at
    ]
    left = sum(run.progress.eta_s for run in running)
    if queued:
        # Without a run that has ended nothing is known about those that have not begun.
        if not lengths:
            return 0.0
        left += len(queued) * fmean(lengths)
    return left / max(1, len(running))
