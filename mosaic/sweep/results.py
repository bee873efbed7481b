"""What a sweep has found, as plain data: nothing here needs Optuna. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from mosaic.statistics.intervals import Interval
from mosaic.sweep.plan import SweepPlan
from mosaic.sweep.space import Point


@dataclass(frozen=True)
class TrialRecord:
    """A trial as others see it; `state` is running, complete, pruned, fail or waiting."""

    number: int
    state: str
    value: float | None
    params: Point
    runs: list[str] = field(default_factory=list)
    reason: str = ""


@dataclass(frozen=True)
class Confirmed:
    """One of the best trials, trained again with seeds that the search has not seen.

    Attributes:
        trial: Its number.
        searched: The value that the search found.
        scores: The values with fresh seeds.
        mean: Their mean.
        interval: 95 % bootstrap interval of the mean; None with fewer than three seeds.
    """

    trial: int
    searched: float
    scores: tuple[float, ...]
    mean: float
    interval: Interval | None

    def optimism(self, maximise: bool) -> float:
        """By how much the search promised too much: the winner's curse, as far as it is known."""
        return self.searched - self.mean if maximise else self.mean - self.searched


@dataclass(frozen=True)
class Search:
    """A sweep as others see it.

    Attributes:
        trials: Every trial that has begun, best first.
        halted: Why no more trials start; empty while they do.
        confirmed: The best trials with fresh seeds, the best of them first; empty before that.
        distributions: What each parameter was chosen from, as Optuna writes it.
    """

    sweep_id: str
    plan: SweepPlan
    trials: tuple[TrialRecord, ...]
    halted: str = ""
    confirmed: tuple[Confirmed, ...] = ()
    distributions: Mapping[str, str] = field(default_factory=dict)

    @property
    def complete(self) -> list[TrialRecord]:
        """The trials that count, best first."""
        return [trial for trial in self.trials if trial.state == "complete"]

    @property
    def best(self) -> TrialRecord | None:
        """The best trial: the confirmed winner if the best ones were confirmed."""
        if self.confirmed:
            number = self.confirmed[0].trial
            return next(trial for trial in self.trials if trial.number == number)
        return next(iter(self.complete), None)

    def rows(self) -> list[dict[str, object]]:
        """The trials as rows of a table, with everything that draws them again."""
        direction = "maximize" if self.plan.maximise else "minimize"
        return [
            {
                "number": trial.number,
                "state": trial.state,
                "value": "" if trial.value is None else trial.value,
                "direction": direction,
                **{f"param {name}": json.dumps(trial.params.get(name)) for name in self.plan.space},
                **{f"distribution {name}": text for name, text in self.distributions.items()},
            }
            for trial in sorted(self.trials, key=lambda trial: trial.number)
        ]
