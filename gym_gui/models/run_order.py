"""Which rows the run table has, in which order: filter, sort, group. Pure and quick."""

import itertools
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gym_gui.models.run_columns import BY_KEY, COLUMNS, Column
from mosaic.experiments.summary import experiment_of
from mosaic.presenting.run_filter import Predicate
from mosaic.records import RunRecord, State

GroupKey = tuple[str, ...]
_EXPERIMENT = "experiment"
# What names of seeds share of the seed itself: `-s`, ` · seed 1`, `_2`. Digits without anything
# before them belong to the name: `lr1e3`.
_SEED_AT_END = re.compile(r"[-_ .·,]+(?:seed|s)?[-_ =]*\d*$")


@dataclass(frozen=True)
class View:
    """How the table is looked at."""

    sort: str = "created"
    descending: bool = True
    grouped: bool = False
    by_experiment: bool = False
    collapsed: frozenset[GroupKey] = frozenset()
    pinned: str = ""


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed, or those of an experiment."""

    key: GroupKey
    runs: tuple[RunRecord, ...] = field(repr=False)

    @property
    def title(self) -> str:
        """What the group's row says."""
        if is_experiment(self.key):
            done = sum(run.ended for run in self.runs)
            return f"{self._experiment} · {done} of {len(self.runs)} runs done"
        names = [run.run_name or "" for run in self.runs]
        shared = _SEED_AT_END.sub("", common_start(names))
        what = shared or " · ".join(filter(None, self.key[:3]))
        return f"{len(self.runs)} × {what}"

    @property
    def _experiment(self) -> str:
        _, kind, name = self.key
        if kind == "sweep":
            # A sweep has no name but its id, of which the end tells two of them apart.
            first = self.runs[0]
            where = f" in {first.env_id}" if first.env_id else ""
            return f"sweep of {first.algo or first.worker}{where} ({name[-6:].lower()})"
        # The evaluations of an experiment have its name.
        return f"evaluation of {name}" if kind == "evaluation" else name

    @property
    def live(self) -> int:
        """How many have not ended."""
        return sum(run.live for run in self.runs)

    @property
    def progress(self) -> float:
        """Mean progress."""
        return statistics.fmean(run.progress.fraction for run in self.runs)


Row = RunRecord | Group


def experiment_key(run: RunRecord) -> GroupKey:
    """The experiment or sweep of a run; a run of its own is its own."""
    mark = experiment_of(run.tags)
    return (_EXPERIMENT, *mark) if mark is not None else (run.run_id,)


def is_experiment(key: GroupKey) -> bool:
    """Whether a group is an experiment."""
    return key[0] == _EXPERIMENT


def common_start(names: Sequence[str]) -> str:
    """The letters with which all names begin."""
    letters = itertools.takewhile(lambda column: len(set(column)) == 1, zip(*names, strict=False))
    return "".join(column[0] for column in letters)


def group_key(run: RunRecord) -> GroupKey:
    """What runs have in common that differ only in their seed."""
    return (
        run.algo or run.worker,
        run.env_id,
        run.mode if run.mode != "train" else "",
        str(run.progress.total),
        run.worker,
    )


def arrange(
    runs: Iterable[RunRecord],
    fits: Predicate | None,
    view: View,
    column: Column = COLUMNS[BY_KEY["created"]],
    group_of: Callable[[RunRecord], GroupKey] = group_key,
) -> list[Row]:
    """The rows to show, sorted by a column; runs of the same `group_of` differ in their seed."""
    chosen = [run for run in runs if fits is None or fits(run)]
    # Newest first beneath every other order: sorting is stable, so equal values stay like this.
    chosen.sort(key=lambda run: run.created_at, reverse=True)
    if column.key != "created" or not view.descending:
        chosen.sort(key=column.sort, reverse=view.descending)
    if view.pinned:
        # Last, so that it wins over the column.
        chosen.sort(key=lambda run: run.run_id != view.pinned)
    if view.by_experiment:
        return _grouped(chosen, view, experiment_key)
    return _grouped(chosen, view, group_of) if view.grouped else list(chosen)


def _grouped(
    runs: list[RunRecord], view: View, group_of: Callable[[RunRecord], GroupKey]
) -> list[Row]:
    groups: dict[GroupKey, list[RunRecord]] = {}
    for run in runs:
        groups.setdefault(group_of(run), []).append(run)
    rows: list[Row] = []
    for key, members in groups.items():
        row = len(members) > 1 or is_experiment(key)
        if row:
            rows.append(Group(key, tuple(members)))
        # An experiment is one row until it is opened; seeds are seen until they are folded.
        if not row or (key in view.collapsed) == is_experiment(key):
            rows.extend(members)
    return rows


def summary(runs: Mapping[str, RunRecord]) -> dict[str, int]:
    """How many runs are running, queued and ended."""
    counts = {"running": 0, "queued": 0, "ended": 0}
    for run in runs.values():
        if run.ended:
            counts["ended"] += 1
        elif run.state is State.INIT:
            counts["queued"] += 1
        else:
            counts["running"] += 1
    return counts
