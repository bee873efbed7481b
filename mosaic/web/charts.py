"""Curves as the page's script draws them. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

from mosaic.curves.members import split_member
from mosaic.curves.names import tag_order
from mosaic.records import MetricBatch
from mosaic.statistics.curves import Curve, band

# Enough for the width of a screen; more only costs the browser time.
MOST_POINTS = 600


class Points(TypedDict):
    """Points of one curve: which chart, which line of it, where."""

    chart: str
    line: str
    order: list[str | int]
    x: list[int]
    y: list[float | None]


class Line(TypedDict):
    """The middle of several seeds with its interval, on steps of its own."""

    name: str
    seeds: int
    x: list[float]
    middle: list[float | None]
    low: list[float | None]
    high: list[float | None]


def points(batch: MetricBatch) -> Points:
    """A batch of the daemon as points of a chart; curves of several members share one chart."""
    tag, member = split_member(batch.tag)
    return {
        "chart": tag,
        "line": "" if member is None else str(member),
        "order": list(tag_order(tag)),
        "x": list(batch.steps),
        "y": numbers(batch.values),
    }


def bands(groups: Mapping[str, Sequence[Curve]]) -> list[Line]:
    """One line for each configuration: its mean over seeds with a 95 % bootstrap interval."""
    lines: list[Line] = []
    for name, curves in groups.items():
        found = band(curves)
        if found is None:
            # One seed: its curve, without an interval that would claim more.
            x, y = max(curves, key=lambda curve: len(curve[0]), default=((), ()))
            lines.append(
                {
                    "name": name,
                    "seeds": len(curves),
                    "x": [float(value) for value in x],
                    "middle": numbers(y),
                    "low": numbers(y),
                    "high": numbers(y),
                }
            )
            continue
        lines.append(
            {
                "name": name,
                "seeds": found.seeds,
                "x": [float(value) for value in found.x],
                "middle": numbers(found.middle),
                "low": numbers(found.low),
                "high": numbers(found.high),
            }
        )
    return lines


def numbers(values: Iterable[float]) -> list[float | None]:
    """Values as JSON has them: it knows no infinities, so they become gaps."""
    return [float(value) if math.isfinite(value) else None for value in values]
