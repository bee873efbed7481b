"""Evaluations and what happened inside their episodes, as workers wrote them down.

The files are a worker's, so nothing in them is trusted: what is not as it should be is left out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gym_gui.models.series import Floats
from mosaic.presenting import formatting

ROLES = {
    "best": "Best",
    "median": "Median",
    "worst": "Worst",
    # The same in every evaluation of every run.
    "first": "First seed",
}


@dataclass(frozen=True)
class Scores:
    """The returns of one policy on several seeds, with the interval around their mean."""

    returns: tuple[float, ...]
    mean: float
    low: float | None = None
    high: float | None = None

    def text(self) -> str:
        """The mean and its interval in words."""
        said = formatting.number(self.mean)
        if self.low is None or self.high is None:
            return said
        return f"{said} ({formatting.number(self.low)} to {formatting.number(self.high)})"


@dataclass(frozen=True)
class Recorded:
    """An episode that can be looked into.

    Attributes:
        path: Its file, in the run directory.
        label: What it is called in a list.
        seed: The seed it began with; None if it is not known.
    """

    path: str
    label: str
    seed: int | None = None


@dataclass(frozen=True)
class Judged:
    """One evaluation of one policy.

    Attributes:
        step: The training step of the policy; None for an evaluation of its own.
        sure: With the best actions, or as the evaluation was asked for.
        sampled: With sampled actions; None if they were not.
    """

    step: int | None
    sure: Scores
    sampled: Scores | None = None
    recorded: tuple[Recorded, ...] = ()

    def text(self, best: bool) -> str:
        """What it says about the policy, in a sentence."""
        where = "" if self.step is None else f"step {self.step:,}: "
        said = f"{where}mean return {self.sure.text()} over {len(self.sure.returns)} episodes"
        if self.sampled is not None:
            said += f", with sampled actions {self.sampled.text()}"
        return said + (" · the best policy so far" if best else "")


@dataclass(frozen=True)
class Inside:
    """What happened inside one episode.

    Attributes:
        actions: As they were taken, one for each step.
        scores_are: `probabilities` or `values` of the actions, the `mean` of a continuous one, or
            empty.
        lines: Curves over the steps by name: the reward, the critic's value, numbers of `info`.
    """

    seed: int | None
    total: float
    length: int
    video: str
    rate: float
    actions: tuple[object, ...]
    scores_are: str = ""
    scores: Floats = field(default_factory=lambda: np.empty((0, 0)))
    lines: Mapping[str, Floats] = field(default_factory=dict)


def best_of(evaluations: Sequence[Judged]) -> int | None:
    """The step of the best policy; of equals the later one, as the worker keeps it."""
    steps = [one for one in evaluations if one.step is not None]
    best = max(steps, key=lambda one: (one.sure.mean, one.step or 0), default=None)
    return None if best is None else best.step


def read_judged(document: Mapping[str, object]) -> Judged | None:
    """An evaluation beside training (`evaluations/step-N.json`)."""
    step, sure = document.get("step"), _scores(document.get("deterministic"))
    if not isinstance(step, int) or sure is None:
        return None
    listed = document.get("recorded")
    found = [_recorded(one) for one in listed] if isinstance(listed, list) else []
    recorded = tuple(one for one in found if one is not None)
    return Judged(step, sure, _scores(document.get("sampled")), recorded)


def read_summary(document: Mapping[str, object], files: Sequence[str]) -> Judged | None:
    """An evaluation of its own (`eval_summary.json`), with the files of its episodes."""
    sure = _scores(document)
    if sure is None:
        return None
    seeds = document.get("episode_seeds")
    known = seeds if isinstance(seeds, list) else []
    recorded: dict[int, Recorded] = {}
    for path in files:
        text = path.rpartition("-")[2].removesuffix(".json")
        number = int(text) if text.isdecimal() else len(sure.returns)
        if number < len(sure.returns):
            seed = known[number] if number < len(known) else None
            label = f"Episode {number} · return {formatting.number(sure.returns[number])}"
            recorded[number] = Recorded(path, label, seed if isinstance(seed, int) else None)
    return Judged(None, sure, None, tuple(recorded[number] for number in sorted(recorded)))


def read_inside(document: Mapping[str, object]) -> Inside:
    """The file of one episode."""
    actions = document.get("actions")
    seed, kind = document.get("seed"), document.get("scores_are")
    length, rate = _number(document.get("length")), _number(document.get("rate"))
    lines = {"value": _line(document.get("values")), "reward": _line(document.get("rewards"))}
    terms = document.get("terms")
    for name, values in terms.items() if isinstance(terms, Mapping) else ():
        lines[str(name)] = _line(values)
    return Inside(
        seed=seed if isinstance(seed, int) else None,
        total=_number(document.get("return")),
        length=0 if math.isnan(length) else int(length),
        video=str(document.get("video") or ""),
        rate=rate if rate > 0 else 30.0,
        actions=tuple(actions) if isinstance(actions, list) else (),
        scores_are=kind if isinstance(kind, str) else "",
        scores=_table(document.get("scores")),
        lines={name: line for name, line in lines.items() if len(line)},
    )


def first_difference(one: Inside, other: Inside) -> int | None:
    """The first step at which two episodes took different actions; None if there is none."""
    for step, (ours, theirs) in enumerate(zip(one.actions, other.actions, strict=False)):
        if ours != theirs:
            return step
    shorter, longer = sorted((len(one.actions), len(other.actions)))
    return shorter if shorter < longer else None


def _recorded(document: object) -> Recorded | None:
    if not isinstance(document, Mapping) or not isinstance(document.get("file"), str):
        return None
    role, seed = str(document.get("role")), document.get("seed")
    total = formatting.number(_number(document.get("return")))
    label = f"{ROLES.get(role, role)} · return {total} · seed {seed}"
    return Recorded(
        f"evaluations/{document['file']}", label, seed if isinstance(seed, int) else None
    )


def _scores(document: object) -> Scores | None:
    if not isinstance(document, Mapping):
        return None
    returns = tuple(_line(document.get("returns")).tolist())
    if not returns:
        return None
    low, high = _number(document.get("low")), _number(document.get("high"))
    known = not (math.isnan(low) or math.isnan(high))
    return Scores(returns, float(np.mean(returns)), low if known else None, high if known else None)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _line(values: object) -> Floats:
    given = values if isinstance(values, list) else []
    return np.array([_number(value) for value in given], float)


def _table(rows: object) -> Floats:
    given = [_line(row) for row in rows] if isinstance(rows, list) else []
    if not given or len({len(row) for row in given}) > 1:
        return np.empty((0, 0))
    return np.stack(given)
