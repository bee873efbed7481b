"""Every figure of a sweep can be drawn again from what a report hands over."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mosaic.reports.content import Report, Section
from mosaic.reports.files import write_folder
from mosaic.reports.gathering import programs_of
from mosaic.reports.study_figures import draw_study

pytestmark = pytest.mark.prove
KINDS = ["history", "importances", "slices", "parallel", "contour"]


def _rows() -> list[dict[str, object]]:
    """Eight trials of two parameters that both matter, and one that was pruned."""
    optuna = pytest.importorskip("optuna")
    kinds = {
        "rate": optuna.distributions.FloatDistribution(1e-4, 1e-1, log=True),
        "steps": optuna.distributions.IntDistribution(32, 256),
    }
    texts = {name: optuna.distributions.distribution_to_json(one) for name, one in kinds.items()}
    rows: list[dict[str, object]] = []
    for number in range(9):
        rate, steps = 1e-4 * 2.2**number, 32 + 28 * ((number * 5) % 9)
        rows.append(
            {
                "number": number,
                "state": "pruned" if number == 4 else "complete",
                "value": 100.0 * number - steps / 4,
                "direction": "maximize",
                "param rate": json.dumps(rate),
                "param steps": json.dumps(steps),
                **{f"distribution {name}": text for name, text in texts.items()},
            }
        )
    return rows


def test_each_figure_of_a_study_is_drawn_again_by_the_command_beside_it(
    report: Report, tmp_path: Path
) -> None:
    """Data and code alone give the same bytes, in a process that knows nothing of MOSAIC."""
    figures = draw_study("sweep", _rows())
    assert [figure.kind for figure in figures] == KINDS
    section = Section(name="sweep", title="A sweep", figures=figures)
    handed = replace(report, sections=(section,), programs=programs_of([section]))
    write_folder(handed, tmp_path)
    folder = tmp_path / "figures"
    # Without the checkout: the program may not need any module of ours. With the rest: a variable
    # that chooses how the machine computes, such as OPENBLAS_CORETYPE, changes the last digits.
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    for figure in figures:
        drawn = folder / f"{figure.name}.svg"
        before = drawn.read_bytes()
        drawn.unlink()
        subprocess.run(
            [sys.executable, "-P", *figure.redraw.split()[1:]],
            cwd=folder,
            env=environment,
            check=True,
        )
        assert drawn.read_bytes() == before, figure.kind
    assert handed.figures == figures
