"""What an algorithm is known to reach in an environment, from this project's learning records.

`known_curves.json` is packed from the records by `python -m benchmarks.learning.known_curves`. Only
records of at least three seeds are in it: one seed says little about what is usual.
"""

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TypedDict

_FILE = "known_curves.json"


class KnownDocument(TypedDict):
    """One record, as it is packed."""

    algorithm: str
    env_id: str
    seeds: int
    total: int
    random: float
    command: str
    lowest: list[list[float]]


@dataclass(frozen=True)
class KnownCurve:
    """A record: what its worst seed had reached at each step.

    Attributes:
        seeds: How many there were.
        total: The steps of the record.
        random: The return of random actions.
        command: What trains with the settings of the record.
        lowest: The return of the worst seed, as (step, return).
    """

    seeds: int
    total: int
    random: float
    command: str
    lowest: Sequence[tuple[int, float]]

    @property
    def gain(self) -> float:
        """What learning has brought by the end, in the worst of all seeds."""
        return self.lowest[-1][1] - self.random

    def at(self, step: float) -> float:
        """The return of the worst seed at the last point up to a step; at first, random play's."""
        place = bisect_right(self.lowest, step, key=lambda point: point[0])
        return self.lowest[place - 1][1] if place else self.random


def known_curve(algorithm: str, env_id: str) -> KnownCurve | None:
    """The record of an algorithm in an environment, if there is one."""
    return _all().get((algorithm, env_id))


@cache
def _all() -> Mapping[tuple[str, str], KnownCurve]:
    # Read at the first report of a run, not when a daemon starts.
    text = files("mosaic.health").joinpath(_FILE).read_text(encoding="utf-8")
    documents: list[KnownDocument] = json.loads(text)
    return {
        (one["algorithm"], one["env_id"]): KnownCurve(
            one["seeds"],
            one["total"],
            one["random"],
            one["command"],
            tuple((int(step), value) for step, value in one["lowest"]),
        )
        for one in documents
    }
