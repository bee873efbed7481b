"""Every figure can be drawn again from what the report hands over."""

import csv
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from mosaic.reports.content import Report
from mosaic.reports.files import write_folder


@pytest.fixture(scope="module")
def folder(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The figures as files, as someone else gets them."""
    target = tmp_path_factory.mktemp("report")
    write_folder(report, target)
    return target / "figures"


def test_the_command_beside_a_figure_draws_the_same_file(report: Report, folder: Path) -> None:
    """Data and code alone give the same bytes, in a process that knows nothing of MOSAIC."""
    figure = report.figures[0]
    before = (folder / f"{figure.name}.svg").read_bytes()
    (folder / f"{figure.name}.svg").unlink()
    words = figure.redraw.split()
    # In isolated mode, without the checkout: the program may not need any module of ours.
    subprocess.run([sys.executable, "-P", *words[1:]], cwd=folder, check=True)
    assert (folder / f"{figure.name}.svg").read_bytes() == before


@pytest.mark.parametrize("kind", ["curves", "scores", "improvement", "profiles"])
@pytest.mark.parametrize("form", ["svg", "pdf"])
def test_every_figure_is_drawn_again_to_the_same_bytes(
    folder: Path, tmp_path: Path, kind: str, form: str
) -> None:
    """SVG and PDF of every kind follow from their CSV and the program beside them."""
    program = runpy.run_path(str(folder / "drawing.py"))
    data, target = folder / f"experiment-study-{kind}.csv", tmp_path / f"again.{form}"
    program["save"](program["draw"](kind, program["read"](data)), target, form)
    assert target.read_bytes() == (folder / f"experiment-study-{kind}.{form}").read_bytes()


def test_the_data_of_a_figure_are_the_numbers_of_the_comparison(report: Report) -> None:
    """Means, interval ends and seeds of the score figure are those of `mosaic compare`."""
    [section] = report.sections
    figure = next(one for one in section.figures if one.kind == "scores")
    rows = list(csv.DictReader(figure.data.splitlines()))
    assert section.comparison is not None
    for cell in section.comparison.cells:
        own = [row for row in rows if (row["group"], row["env_id"]) == (cell.group, cell.env_id)]
        assert [float(row["value"]) for row in own[:-1]] == [run.score for run in cell.runs]
        mean = own[-1]
        assert cell.mean_interval is not None
        assert float(mean["value"]) == cell.mean
        assert (float(mean["low"]), float(mean["high"])) == tuple(cell.mean_interval)
