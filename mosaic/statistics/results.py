"""What a comparison finds, as records: `mosaic compare --json` prints exactly these fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from mosaic.records.fields import Record
from mosaic.statistics.aggregates import Floats
from mosaic.statistics.intervals import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored(Record):
    """A run that counts."""

    run_id: Annotated[str, "Id of the run."]
    seed: Annotated[int | None, "Its seed."]
    score: Annotated[float, "The value that is compared."]
    steps_to_target: Annotated[float | None, "First step at the target; null if never."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut(Record):
    """A run that does not count, and why."""

    run_id: Annotated[str, "Id of the run."]
    seed: Annotated[int | None, "Its seed."]
    reason: Annotated[str, "Why it does not count."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell(Record):
    """One configuration in one environment: the seeds together."""

    group: Annotated[str, "Name of the configuration."]
    env_id: Annotated[str, "Environment."]
    at_step: Annotated[int, "Step at which the scores are read."]
    runs: Annotated[tuple[Scored, ...], "Runs that count."]
    left_out: Annotated[tuple[LeftOut, ...], "Runs that do not."]
    mean: Annotated[float, "Mean over seeds."]
    sd: Annotated[float | None, "Sample standard deviation over seeds."]
    iqm: Annotated[float, "Interquartile mean over seeds."]
    median: Annotated[float, "Median over seeds."]
    mean_interval: Annotated[Interval | None, "95 % bootstrap interval of the mean."]
    iqm_interval: Annotated[Interval | None, "95 % bootstrap interval of the IQM."]
    steps_to_target: Annotated[
        float | None,
        "Median over seeds of the first step at the target; null if most never reach it.",
    ] = None
    note: Annotated[str, "What to know before these numbers are used."] = ""

    @property
    def scores(self) -> Floats:
        """The scores of the runs that count."""
        return np.array([run.score for run in self.runs])


@dataclass(frozen=True, slots=True, kw_only=True)
class Overall(Record):
    """One configuration over all environments, with scores between 0 and 1."""

    group: Annotated[str, "Name of the configuration."]
    env_ids: Annotated[tuple[str, ...], "Environments."]
    mean: Annotated[float, "Mean of normalised scores."]
    iqm: Annotated[float, "Interquartile mean of normalised scores."]
    median: Annotated[float, "Median over environments of the mean."]
    optimality_gap: Annotated[float, "How far it falls short of 1 on average."]
    mean_interval: Annotated[Interval | None, "95 % bootstrap interval of the mean."]
    iqm_interval: Annotated[Interval | None, "95 % bootstrap interval of the IQM."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair(Record):
    """Two configurations against each other, over the environments that both have."""

    group: Annotated[str, "Name of the one."]
    other: Annotated[str, "Name of the other."]
    env_ids: Annotated[tuple[str, ...], "Environments that both have."]
    improvement: Annotated[float, "Probability that a run of the one is better."]
    improvement_interval: Annotated[Interval | None, "95 % bootstrap interval of it."]
    p_value: Annotated[float, "Of a permutation test on the difference of means, two-sided."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(Record):
    """The share of runs of a configuration above each target."""

    group: Annotated[str, "Name of the configuration."]
    targets: Annotated[tuple[float, ...], "Scores; normalised if there are several environments."]
    shares: Annotated[tuple[float, ...], "Share of runs above each."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Record):
    """Everything that can be said about a set of runs."""

    metric: Annotated[str, "The curve that is compared."]
    higher_is_better: Annotated[bool, "Whether more is better."]
    target: Annotated[float | None, "Score to reach, if one was given."]
    cells: Annotated[tuple[Cell, ...], "Configurations by environment."]
    overall: Annotated[tuple[Overall, ...], "Configurations over several environments."]
    pairs: Annotated[tuple[Pair, ...], "Configurations against each other."]
    profiles: Annotated[tuple[Profile, ...], "Performance profiles."]
    notes: Annotated[tuple[str, ...], "What to know before these numbers are used."]
    scale: Annotated[Mapping[str, Interval], "Scores that count as 0 and 1, by environment."] = (
        field(default_factory=dict)
    )
