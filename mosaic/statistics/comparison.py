"""A comparison of runs: groups that differ only in their seed, and what can be said about them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mosaic.statistics import aggregates
from mosaic.statistics.aggregates import Floats
from mosaic.statistics.curves import Curve, steps_to, value_at
from mosaic.statistics.grouping import Asked, group_names
from mosaic.statistics.intervals import FEWEST_SEEDS, Interval, interval
from mosaic.statistics.results import Cell, Comparison, LeftOut, Overall, Pair, Profile, Scored
from mosaic.statistics.significance import permutation_test

_TOO_FEW = f"fewer than {FEWEST_SEEDS} seeds: this shows nothing"


@dataclass(frozen=True)
class Trained:
    """What a comparison needs to know about a run.

    Attributes:
        settings: Everything it was asked to do, without algorithm, environment and seed.
        done: Whether it did all it was asked to do.
        state: Its state or outcome, in a word.
        step: How far it came.
        curve: Steps and values of the number that is compared.
    """

    run_id: str
    name: str
    algo: str
    env_id: str
    seed: int | None
    settings: Mapping[str, object]
    done: bool
    state: str
    step: int
    curve: Curve


@dataclass(frozen=True)
class Question:
    """What is asked of a comparison.

    Attributes:
        metric: The curve that is compared.
        at: The step at which scores are read; None for the end of each run.
        target: A score whose first step is wanted.
        higher_is_better: Whether more is better.
        scale: For each environment the scores that count as 0 and as 1; the lowest and highest
            score of the comparison where none are given.
    """

    metric: str
    at: int | None = None
    target: float | None = None
    higher_is_better: bool = True
    scale: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def compare(runs: Sequence[Trained], question: Question) -> Comparison:
    """Group runs by configuration and environment and say what the seeds show."""
    asked = {run.run_id: Asked(run.algo, run.env_id, run.settings) for run in runs}
    names = group_names(asked)
    cells: list[Cell] = []
    empty: list[str] = []
    for (name, env_id), members in _by_cell(runs, names).items():
        cell = _cell(name, env_id, members, question)
        if cell is None:
            reasons = "; ".join(_left_out(run, question.at) for run in members)
            empty.append(
                f"{name} in {env_id or 'its environment'} has no run that counts: {reasons}"
            )
        else:
            cells.append(cell)
    scale = _scale(cells, question)
    groups = list(dict.fromkeys(cell.group for cell in cells))
    return Comparison(
        metric=question.metric,
        higher_is_better=question.higher_is_better,
        target=question.target,
        cells=tuple(cells),
        overall=tuple(_overall(cells, groups, scale)),
        pairs=tuple(
            _pair(_shared(cells, one, other), scale, question.higher_is_better)
            for one, other in itertools.combinations(groups, 2)
            if _shared(cells, one, other)
        ),
        profiles=tuple(_profiles(cells, groups, scale)),
        notes=(*empty, *_notes(cells)),
        scale={env_id: Interval(*ends) for env_id, ends in scale.items()},
    )


def _by_cell(
    runs: Sequence[Trained], names: Mapping[str, str]
) -> dict[tuple[str, str], list[Trained]]:
    found: dict[tuple[str, str], list[Trained]] = {}
    for run in runs:
        found.setdefault((names[run.run_id], run.env_id), []).append(run)
    return found


def _left_out(run: Trained, at: int | None) -> str:
    """Why a run does not count; empty if it does."""
    if not len(run.curve[0]):
        return f"run {run.run_id} has no values ({run.state})"
    if at is None:
        return "" if run.done else f"run {run.run_id} is not complete ({run.state})"
    reached = int(max(run.step, run.curve[0][-1]))
    if run.curve[0][0] > at:
        return f"run {run.run_id} has its first value after step {at:,}"
    return "" if reached >= at else f"run {run.run_id} ended at step {reached:,} of {at:,}"


def _cell(name: str, env_id: str, members: Sequence[Trained], question: Question) -> Cell | None:
    counted = [run for run in members if not _left_out(run, question.at)]
    if not counted:
        return None
    ends = [int(max(run.step, run.curve[0][-1])) for run in counted]
    at = min(ends) if question.at is None else question.at
    falling, target = not question.higher_is_better, question.target
    runs = []
    for run in sorted(counted, key=lambda run: (run.seed is None, run.seed or 0, run.run_id)):
        score = value_at(run.curve, at)
        assert score is not None
        steps = None if target is None else steps_to(run.curve, target, falling=falling)
        runs.append(Scored(run_id=run.run_id, seed=run.seed, score=score, steps_to_target=steps))
    left_out = tuple(
        LeftOut(run_id=run.run_id, seed=run.seed, reason=reason)
        for run in members
        if (reason := _left_out(run, question.at))
    )
    scores = [np.array([run.score for run in runs])]
    spread = aggregates.deviation(scores)
    return Cell(
        group=name,
        env_id=env_id,
        at_step=at,
        runs=tuple(runs),
        left_out=left_out,
        mean=aggregates.mean(scores),
        sd=None if np.isnan(spread) else spread,
        iqm=aggregates.iqm(scores),
        median=aggregates.median(scores),
        mean_interval=interval(aggregates.mean, scores),
        iqm_interval=interval(aggregates.iqm, scores),
        steps_to_target=_median_steps([run.steps_to_target for run in runs]),
        note=_cell_note(len(runs), left_out, ends, at if question.at is None else None),
    )


def _median_steps(steps: Sequence[float | None]) -> float | None:
    """The median, with seeds that never reach the target as later than all others."""
    middle = float(np.median([np.inf if one is None else one for one in steps]))
    return middle if np.isfinite(middle) else None


def _cell_note(
    count: int, left_out: Sequence[LeftOut], ends: Sequence[int], common: int | None
) -> str:
    notes = [_TOO_FEW] if count < FEWEST_SEEDS else []
    if left_out:
        notes.append(f"{len(left_out)} of {count + len(left_out)} seeds left out")
    if common is not None and len(set(ends)) > 1:
        notes.append(f"seeds end at steps {min(ends):,} to {max(ends):,}, read at {common:,}")
    return "; ".join(notes)


def _scale(cells: Sequence[Cell], question: Question) -> dict[str, tuple[float, float]]:
    found: dict[str, tuple[float, float]] = {}
    for env_id in dict.fromkeys(cell.env_id for cell in cells):
        scores = np.concatenate([cell.scores for cell in cells if cell.env_id == env_id])
        ends = (float(scores.min()), float(scores.max()))
        low, high = question.scale.get(env_id, ends)
        found[env_id] = (low, high)
    return found


def _overall(
    cells: Sequence[Cell], groups: Sequence[str], scale: Mapping[str, tuple[float, float]]
) -> list[Overall]:
    if len(scale) < 2:
        return []
    rows = []
    for group in groups:
        own = [cell for cell in cells if cell.group == group]
        # A configuration that lacks an environment cannot be averaged with those that have it.
        if len(own) < len(scale):
            continue
        scores = _normalised(own, scale)
        rows.append(
            Overall(
                group=group,
                env_ids=tuple(cell.env_id for cell in own),
                mean=aggregates.mean(scores),
                iqm=aggregates.iqm(scores),
                median=aggregates.median(scores),
                optimality_gap=aggregates.optimality_gap(scores),
                mean_interval=interval(aggregates.mean, scores),
                iqm_interval=interval(aggregates.iqm, scores),
            )
        )
    return rows


def _normalised(cells: Sequence[Cell], scale: Mapping[str, tuple[float, float]]) -> list[Floats]:
    return aggregates.normalised(
        [cell.scores for cell in cells], [scale[cell.env_id] for cell in cells]
    )


def _shared(cells: Sequence[Cell], one: str, other: str) -> list[tuple[Cell, Cell]]:
    theirs = {cell.env_id: cell for cell in cells if cell.group == other}
    return [
        (cell, theirs[cell.env_id]) for cell in cells if cell.group == one and cell.env_id in theirs
    ]


def _pair(
    shared: Sequence[tuple[Cell, Cell]],
    scale: Mapping[str, tuple[float, float]],
    higher_is_better: bool,
) -> Pair:
    # On a common scale, or the environment with the largest scores would decide alone.
    ours, theirs = (_normalised(cells, scale) for cells in zip(*shared, strict=True))
    if not higher_is_better:
        ours, theirs = theirs, ours
    improvement = aggregates.probability_of_improvement
    return Pair(
        group=shared[0][0].group,
        other=shared[0][1].group,
        env_ids=tuple(cell.env_id for cell, _ in shared),
        improvement=improvement(ours, theirs),
        improvement_interval=interval(improvement, ours, theirs),
        p_value=permutation_test(ours, theirs),
    )


def _profiles(
    cells: Sequence[Cell], groups: Sequence[str], scale: Mapping[str, tuple[float, float]]
) -> list[Profile]:
    if not cells:
        return []
    several = len(scale) > 1
    low, high = (0.0, 1.0) if several else next(iter(scale.values()))
    targets = np.linspace(low, high, 21)
    rows = []
    for group in groups:
        own = [cell for cell in cells if cell.group == group]
        scores = _normalised(own, scale) if several else [cell.scores for cell in own]
        shares = aggregates.profile(scores, targets)
        rows.append(
            Profile(
                group=group,
                targets=tuple(map(float, targets)),
                shares=tuple(map(float, shares)),
            )
        )
    return rows


def _notes(cells: Sequence[Cell]) -> list[str]:
    notes = [f"{cell.group} in {cell.env_id}: {cell.note}" for cell in cells if cell.note]
    return notes + [one.reason for cell in cells for one in cell.left_out]
