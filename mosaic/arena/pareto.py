"""Which agents are worth their price: those that no other beats in both. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from mosaic.arena.table import Row


@dataclass(frozen=True)
class Price:
    """Something that is spent, as people choose it.

    Attributes:
        field: The row's number.
    """

    title: str
    field: str


PRICES = (
    Price("Seconds a solved episode", "seconds_per_solved"),
    Price("Tokens a solved episode", "tokens_per_solved"),
    Price("Dollars a solved episode", "cost_per_solved"),
    Price("Milliseconds a step", "milliseconds_per_step"),
)


@dataclass(frozen=True)
class Point:
    """One agent: what it needs and what it reaches."""

    agent: str
    spent: float
    reached: float


def points(rows: Sequence[Row], price: Price) -> list[Point]:
    """The agents whose price is known, in the order of the table.

    What they reach is the share of successes; the mean return where the task has no goal.
    """
    found = []
    for row in rows:
        spent = getattr(row, price.field)
        reached = row.success if row.success is not None else row.mean_return
        if spent is not None and reached is not None:
            found.append(Point(row.agent, float(spent), reached))
    return found


def frontier(found: Sequence[Point]) -> list[Point]:
    """The points that no other one dominates, from the cheapest to the dearest."""
    kept: list[Point] = []
    for point in sorted(found, key=lambda one: (one.spent, -one.reached)):
        # Dearer than all that are kept: it has to reach more than each of them.
        if not kept or point.reached > kept[-1].reached:
            kept.append(point)
    return kept
