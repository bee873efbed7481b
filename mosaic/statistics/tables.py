"""Comparisons as rows of text: for a terminal, a window, a spreadsheet and a paper. Pure.

Numbers are rounded here and nowhere else, so that everyone reads the same table.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Only for annotations: commands that print a score must not import NumPy for it.
    from mosaic.statistics.intervals import Interval
    from mosaic.statistics.results import Cell, Comparison, Overall, Pair

AsText = Callable[["Comparison"], str]
STATS = ("mean", "sd", "iqm", "median", "improvement", "profile")
USUAL = ("mean", "sd", "iqm", "improvement")
OVERALL_COLUMNS = ("GROUP", "IQM", "95 % CI", "MEAN", "95 % CI", "GAP")
PAIR_COLUMNS = ("GROUP", "OTHER", "P(BETTER)", "95 % CI", "PERMUTATION P")
_LATEX_SPECIAL = str.maketrans({one: f"\\{one}" for one in "&%$#_{}"})


def score(value: float | None) -> str:
    """A return. Below 10 with two digits: in sparse tasks it is between 0 and 1."""
    if value is None:
        return "-"
    return f"{value:,.{2 if abs(value) < 10 else 1}f}"


def columns(found: Comparison, stats: Sequence[str] = USUAL) -> list[str]:
    """What the rows of configurations have."""
    names = ["GROUP", "ENV", "SEEDS", "STEP"]
    names += ["MEAN", "95 % CI"] if "mean" in stats else []
    names += ["SD"] if "sd" in stats else []
    names += ["IQM", "95 % CI"] if "iqm" in stats else []
    names += ["MEDIAN"] if "median" in stats else []
    return names + (["STEPS TO TARGET"] if found.target is not None else [])


def row(cell: Cell, found: Comparison, stats: Sequence[str] = USUAL) -> list[str]:
    """One configuration in one environment."""
    count = len(cell.runs) + len(cell.left_out)
    texts = [
        cell.group,
        cell.env_id,
        f"{len(cell.runs)} of {count}" if cell.left_out else str(count),
        f"{cell.at_step:,}",
    ]
    if "mean" in stats:
        texts += [score(cell.mean), between(cell.mean_interval)]
    if "sd" in stats:
        texts.append(score(cell.sd))
    if "iqm" in stats:
        texts += [score(cell.iqm), between(cell.iqm_interval)]
    if "median" in stats:
        texts.append(score(cell.median))
    if found.target is not None:
        reached = sum(run.steps_to_target is not None for run in cell.runs)
        steps = "never" if cell.steps_to_target is None else f"{cell.steps_to_target:,.0f}"
        texts.append(f"{steps} ({reached} of {len(cell.runs)} seeds)")
    return texts


def overall_row(one: Overall) -> list[str]:
    """One configuration over all environments."""
    return [
        one.group,
        f"{one.iqm:.3f}",
        between(one.iqm_interval),
        f"{one.mean:.3f}",
        between(one.mean_interval),
        f"{one.optimality_gap:.3f}",
    ]


def pair_row(pair: Pair) -> list[str]:
    """Two configurations against each other."""
    return [
        pair.group,
        pair.other,
        f"{pair.improvement:.3f}",
        between(pair.improvement_interval),
        f"{pair.p_value:.4f}",
    ]


def between(interval: Interval | None) -> str:
    """The ends of an interval; without one, why there is none."""
    if interval is None:
        return "too few seeds"
    return f"{score(interval.low)} to {score(interval.high)}"


def latex(found: Comparison, stats: Sequence[str] = USUAL) -> str:
    """The configurations as a table for a paper (`booktabs`)."""
    names = columns(found, stats)
    lines = [
        f"% {found.metric}; intervals: 95 % bootstrap over seeds",
        f"\\begin{{tabular}}{{ll{'r' * (len(names) - 2)}}}",
        "\\toprule",
        " & ".join(map(_escaped, names)) + r" \\",
        "\\midrule",
        *(" & ".join(map(_escaped, row(cell, found, stats))) + r" \\" for cell in found.cells),
        "\\bottomrule",
        "\\end{tabular}",
    ]
    return "\n".join([*lines, *(f"% {note}" for note in found.notes)])


def csv_text(found: Comparison) -> str:
    """One line for each run that counts, with every digit, for a spreadsheet."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["group", "env_id", "seed", "run_id", "at_step", found.metric])
    for cell in found.cells:
        for run in cell.runs:
            writer.writerow(
                [cell.group, cell.env_id, run.seed, run.run_id, cell.at_step, run.score]
            )
    return text.getvalue()


def _escaped(text: str) -> str:
    return text.replace("\\", "/").translate(_LATEX_SPECIAL)
