"""Draws the figures of a MOSAIC report from their data.

python drawing.py curves curves.csv curves.svg

This file needs nothing but matplotlib. The report is drawn by it, and every report carries a copy:
the data and this file are the figure.
"""

import csv
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase, SubFigure

Row = Mapping[str, str]
# Okabe and Ito's colours, which people who see colours differently can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
_GREY = "#667085"
_NO_DATE = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a data file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def curves(figure: FigureBase, rows: Sequence[Row]) -> None:
    """Learning curves: the mean over seeds and its 95 % interval, one panel an environment."""
    groups = _names(rows, "group")
    environments = _names(rows, "env_id")
    panels = figure.subplots(1, len(environments), squeeze=False)[0]
    for axes, env_id in zip(panels, environments, strict=True):
        for group in groups:
            own = [row for row in rows if (row["env_id"], row["group"]) == (env_id, group)]
            if not own:
                continue
            colour = _colour(groups, group)
            steps = [float(row["step"]) for row in own]
            label = f"{group} ({own[0]['seeds']} {'seed' if own[0]['seeds'] == '1' else 'seeds'})"
            axes.plot(steps, [float(row["mean"]) for row in own], color=colour, label=label)
            inside = [row for row in own if row["low"]]
            axes.fill_between(
                [float(row["step"]) for row in inside],
                [float(row["low"]) for row in inside],
                [float(row["high"]) for row in inside],
                color=colour,
                alpha=0.2,
                linewidth=0,
            )
        _finish(axes, env_id, "environment steps")
    panels[0].set_ylabel(rows[0]["metric"] if rows else "")
    _legend(figure, panels)


def scores(figure: FigureBase, rows: Sequence[Row]) -> None:
    """The score of every seed, the mean and its 95 % interval, one panel an environment."""
    groups = _names(rows, "group")
    environments = _names(rows, "env_id")
    panels = figure.subplots(1, len(environments), squeeze=False, sharey=True)[0]
    for axes, env_id in zip(panels, environments, strict=True):
        for row in rows:
            if row["env_id"] != env_id:
                continue
            place, colour = groups.index(row["group"]), _colour(groups, row["group"])
            if row["kind"] == "seed":
                axes.plot(
                    [float(row["value"])], [place + 0.18], "o", color=colour, alpha=0.45, ms=5
                )
            else:
                _interval(axes, row, place, colour)
        axes.set_yticks(range(len(groups)), groups)
        axes.set_ylim(len(groups) - 0.5, -0.5)
        _finish(axes, env_id, rows[0]["metric"])


def improvement(figure: FigureBase, rows: Sequence[Row]) -> None:
    """How likely a run of the first configuration is better than one of the second."""
    axes = figure.subplots()
    for place, row in enumerate(rows):
        _interval(axes, row, place, COLOURS[0])
    axes.axvline(0.5, color=_GREY, linewidth=1, linestyle="--")
    axes.set_yticks(
        range(len(rows)), [f"{row['group']}\nbetter than {row['other']}" for row in rows]
    )
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(-0.02, 1.02)
    _finish(axes, "", "probability of improvement")


def profiles(figure: FigureBase, rows: Sequence[Row]) -> None:
    """The share of runs above each score: a curve further right and up is better."""
    groups = _names(rows, "group")
    axes = figure.subplots()
    for group in groups:
        own = [row for row in rows if row["group"] == group]
        targets = [float(row["target"]) for row in own]
        shares = [float(row["share"]) for row in own]
        axes.plot(targets, shares, color=_colour(groups, group), label=group)
    axes.set_ylim(-0.02, 1.02)
    axes.set_ylabel("share of runs above it")
    _finish(axes, "", rows[0]["scale"] if rows else "")
    _legend(figure, [axes])


KINDS: dict[str, Callable[[FigureBase, Sequence[Row]], None]] = {
    "curves": curves,
    "scores": scores,
    "improvement": improvement,
    "profiles": profiles,
}


def size(kind: str, rows: Sequence[Row]) -> tuple[float, float]:
    """Width and height of a figure in inches: higher for more names, wider for more panels."""
    panels = max(1, len({row.get("env_id", "") for row in rows}))
    groups = max(1, len({row["group"] for row in rows}))
    if kind == "scores":
        return min(4.5 + 2.5 * panels, 14.0), 1.3 + 0.45 * groups
    if kind == "improvement":
        return 7.0, 1.3 + 0.5 * len(rows)
    return min(2.5 + 4.5 * panels, 14.0), 3.8


def draw(kind: str, rows: Sequence[Row]) -> Figure:
    """A figure of its own."""
    # Not arranged by a solver: its last digits may differ from one process to the next.
    figure = Figure(figsize=size(kind, rows))
    figure.subplots_adjust(wspace=0.28)
    KINDS[kind](figure, rows)
    return figure


def save(figure: Figure, target: str | Path | IO[bytes], form: str) -> None:
    """Write a figure as `svg`, `pdf` or `png`."""
    # The same picture gives the same file, byte for byte: no date, and no random names inside.
    with matplotlib.rc_context({"svg.hashsalt": "mosaic", "svg.fonttype": "path"}):
        figure.savefig(target, format=form, metadata=_NO_DATE[form], dpi=150, bbox_inches="tight")


def _names(rows: Sequence[Row], column: str) -> list[str]:
    return list(dict.fromkeys(row[column] for row in rows))


def _colour(groups: Sequence[str], group: str) -> str:
    return COLOURS[groups.index(group) % len(COLOURS)]


def _interval(axes: Axes, row: Row, place: float, colour: str) -> None:
    if row["low"]:
        ends = [float(row["low"]), float(row["high"])]
        axes.plot(ends, [place, place], color=colour, linewidth=3, solid_capstyle="butt", alpha=0.6)
    axes.plot([float(row["value"])], [place], "D", color=colour, ms=7)


def _finish(axes: Axes, title: str, below: str) -> None:
    axes.set_title(title)
    axes.set_xlabel(below)
    axes.locator_params(axis="x", nbins=6)
    axes.grid(visible=True, alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _legend(figure: FigureBase, panels: Sequence[Axes]) -> None:
    inside = isinstance(figure, SubFigure)
    handles: dict[str, Artist] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if handles:
        figure.legend(
            list(handles.values()),
            list(handles),
            # A page that arranges its parts makes room; a figure of its own grows downwards.
            loc="outside lower center" if inside else "upper center",
            bbox_to_anchor=None if inside else (0.5, 0.0),
            ncols=1 if max(map(len, handles)) > 40 else 2,
            frameon=False,
            fontsize="small",
        )


if __name__ == "__main__":
    kind, data, target = sys.argv[1:]
    save(draw(kind, read(Path(data))), target, Path(target).suffix[1:])
