"""Which figures a comparison gets, and the data behind each. The drawing itself is in `drawing`."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence

from mosaic.reports.content import Figure
from mosaic.statistics.comparison import Trained
from mosaic.statistics.curves import Curve, band
from mosaic.statistics.results import Cell, Comparison

PROGRAM = "drawing.py"
_SCORES_SAY = (
    "Each dot is one seed, the diamond their mean, the bar its 95 % bootstrap interval over seeds."
)
# More pairs than this are a table, not a picture.
_MOST_PAIRS = 12
Rows = list[dict[str, object]]


def figures_of(prefix: str, found: Comparison, runs: Sequence[Trained]) -> list[Figure]:
    """The figures of one comparison; those that would be empty are left out."""
    if not found.cells:
        return []
    curves = _curve_rows(found, {run.run_id: run.curve for run in runs})
    made = []
    if curves:
        made.append(
            _figure(
                prefix, "curves", f"Learning curves: {found.metric}", curves,
                "Lines are means over seeds, shaded areas their 95 % bootstrap intervals over "
                "seeds. Where seeds ended early, the rest is averaged.",
            )
        )  # fmt: skip
    read_at = {cell.at_step for cell in found.cells}
    when = f" at step {read_at.pop():,}" if len(read_at) == 1 else ""
    made.append(_figure(prefix, "scores", f"Scores{when}", _score_rows(found), _SCORES_SAY))
    if 0 < len(found.pairs) <= _MOST_PAIRS:
        made.append(
            _figure(
                prefix, "improvement", "Probability of improvement", _pair_rows(found),
                "How likely a run of the first configuration is better than one of the second; "
                "0.5 means that neither is.",
            )
        )  # fmt: skip
    if len(found.profiles) > 1:
        made.append(
            _figure(
                prefix, "profiles", "Performance profiles", _profile_rows(found),
                "The share of runs above each score.",
            )
        )  # fmt: skip
    return made


def _figure(prefix: str, kind: str, title: str, rows: Rows, caption: str) -> Figure:
    # Here: matplotlib takes longer to import than most commands take to run.
    from mosaic.reports import drawing

    return drawn(prefix, kind, title, rows, caption, PROGRAM, drawing.draw, drawing.save)


def drawn(
    prefix: str,
    kind: str,
    title: str,
    rows: Rows,
    caption: str,
    program: str,
    draw: Callable[..., object],
    save: Callable[..., None],
) -> Figure:
    """A figure drawn from its own CSV, so that the file that is handed over is the one drawn."""
    data = as_csv(rows)
    pictures = {}
    for form in ("svg", "pdf"):
        buffer = io.BytesIO()
        # Drawn once for each form: saving in one form changes details of the layout.
        save(draw(kind, list(csv.DictReader(io.StringIO(data)))), buffer, form)
        pictures[form] = buffer.getvalue()
    return Figure(
        name=f"{prefix}-{kind}",
        kind=kind,
        title=title,
        caption=caption,
        data=data,
        program=program,
        svg=pictures["svg"],
        pdf=pictures["pdf"],
    )


def as_csv(rows: Iterable[Mapping[str, object]]) -> str:
    """Rows with the same columns as CSV, every digit kept."""
    listed = list(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(listed[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(listed)
    return text.getvalue()


def _curve_rows(found: Comparison, curves: Mapping[str, Curve]) -> Rows:
    rows: Rows = []
    for cell in found.cells:
        own = [curves[run.run_id] for run in cell.runs if len(curves[run.run_id][0]) > 1]
        rows += [{"metric": found.metric, **row} for row in _cell_curve(cell, own)]
    return rows


def _cell_curve(cell: Cell, curves: Sequence[Curve]) -> Rows:
    where: dict[str, object] = {
        "env_id": cell.env_id, "group": cell.group, "seeds": len(curves),
    }  # fmt: skip
    together = band(curves)
    if together is None:
        # One seed has no interval, and two that never met have no mean.
        return [
            {**where, "step": step, "mean": value, "low": "", "high": ""}
            for steps, values in curves[:1]
            for step, value in zip(steps.tolist(), values.tolist(), strict=True)
        ]
    hidden = together.shows_nothing
    return [
        {
            **where,
            "step": step,
            "mean": middle,
            "low": "" if hidden else low,
            "high": "" if hidden else high,
        }
        for step, middle, low, high in zip(
            together.x.tolist(),
            together.middle.tolist(),
            together.low.tolist(),
            together.high.tolist(),
            strict=True,
        )
    ]


def _score_rows(found: Comparison) -> Rows:
    rows: Rows = []
    for cell in found.cells:
        where: dict[str, object] = {
            "metric": found.metric,
            "env_id": cell.env_id,
            "group": cell.group,
        }
        for run in cell.runs:
            one = {"kind": "seed", "seed": run.seed, "run_id": run.run_id, "value": run.score}
            rows.append({**where, **one, "low": "", "high": ""})
        ends = cell.mean_interval
        mean = {"kind": "mean", "seed": "", "run_id": "", "value": cell.mean}
        low, high = ("", "") if ends is None else ends
        rows.append({**where, **mean, "low": low, "high": high})
    return rows


def _pair_rows(found: Comparison) -> Rows:
    rows: Rows = []
    for pair in found.pairs:
        ends = pair.improvement_interval
        low, high = ("", "") if ends is None else ends
        names: dict[str, object] = {"group": pair.group, "other": pair.other}
        rows.append({**names, "value": pair.improvement, "low": low, "high": high})
    return rows


def _profile_rows(found: Comparison) -> Rows:
    scale = "normalised score" if len(found.scale) > 1 else found.metric
    return [
        {"scale": scale, "group": one.group, "target": target, "share": share}
        for one in found.profiles
        for target, share in zip(one.targets, one.shares, strict=True)
    ]
