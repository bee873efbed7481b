"""What a sweep form holds, and the command that it stands for."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gym_gui.models.form_fields import BOOL, CHOICE, FLOAT, INT, Field
from mosaic.workers.facts import ArgumentFacts

# The same for all trials, or set by fields of their own.
_FIXED = frozenset({"env_id", "seed", "total_timesteps", "stop_at"})


@dataclass(frozen=True)
class SweepDraft:
    """What `mosaic sweep` is asked for.

    Attributes:
        ranges: What is varied, by name, as `--param` takes it: `log:1e-4..1e-2`.
        confirm: How many of the best trials are trained again with fresh seeds.
    """

    worker: str
    algo: str
    env_id: str
    total_timesteps: int | None = None
    trials: int = 20
    seeds: int = 1
    parallel: int = 1
    race: bool = False
    confirm: int = 0
    evaluate: bool = False
    name: str = ""
    ranges: Mapping[str, str] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        """How many runs the search may take."""
        return self.trials * self.seeds

    def words(self) -> list[str]:
        """The command, without `mosaic` in front."""
        words = ["sweep", self.algo, "--worker", self.worker, "--env-id", self.env_id]
        numbers = (
            ("--total-timesteps", self.total_timesteps),
            ("--trials", self.trials),
            ("--seeds", self.seeds),
            ("--parallel", self.parallel),
            ("--confirm", self.confirm or None),
        )
        for flag, number in numbers:
            words += [flag, str(number)] if number is not None else []
        words += ["--race"] if self.race else []
        words += ["--objective", "eval"] if self.evaluate else []
        words += ["--name", self.name] if self.name else []
        for name, text in self.ranges.items():
            words += ["--param", f"{name}={text}"]
        return words


def rangeable(arguments: Sequence[ArgumentFacts], first: Sequence[str]) -> list[Field]:
    """The arguments that a sweep can vary, those that matter most first."""
    fields = [Field.from_argument(one) for one in arguments if one["name"] not in _FIXED]
    usable = [one for one in fields if one.kind in (INT, FLOAT, BOOL, CHOICE)]
    return sorted(
        usable, key=lambda one: first.index(one.name) if one.name in first else len(first)
    )


def suggested_range(argument: Field) -> str:
    """A range around the script's own default, within the script's own bounds; empty if none."""
    if argument.kind == CHOICE:
        return ",".join(map(str, argument.choices))
    if argument.kind == BOOL:
        return "true,false"
    default = argument.default
    if not isinstance(default, int | float) or default <= 0:
        return ""
    if argument.kind == INT:
        low, high = _within(argument, default, max(1, default // 4), default * 4)
        return f"{low:.0f}..{high:.0f}" if low < high else ""
    if argument.high == 1 and 0.5 < default < 1:
        # A discount of 0.99 lies between 0.9 and 0.999: what is left to 1 is what counts.
        digits = 1 - math.floor(math.log10(1 - default))
        low, high = max(0.0, 1 - (1 - default) * 10), 1 - (1 - default) / 10
        return f"{round(low, digits):g}..{round(high, digits):g}"
    low, high = _within(argument, default, default / 10, default * 10)
    return f"log:{low:g}..{high:g}" if 0 < low < high else ""


def _within(argument: Field, default: float, low: float, high: float) -> tuple[float, float]:
    smallest = -math.inf if argument.low is None else argument.low
    largest = math.inf if argument.high is None else argument.high
    # An open end is not allowed itself; the default is, and is inside.
    if argument.high_open and high >= largest:
        high = (largest + default) / 2
    return max(low, smallest), min(high, largest)
