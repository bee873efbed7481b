"""`mosaic report`, with real runs of a real daemon."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.conftest import MOSAIC, Command
from support.trainer import Trainer

STUDY = ("study", "--algo", "climber", "--param", "slope=1,2", "--seeds", "2")
METRIC = ("--metric", "height")


def _command(trainer: Trainer) -> Command:
    return Command(trainer.environment(MOSAIC_HOME=str(trainer.home.root)))


def test_a_report_has_the_numbers_of_compare_and_makes_them_again(
    make_trainer: Callable[..., Trainer], tmp_path: Path
) -> None:
    """The page, the LaTeX table and the JSON are `mosaic compare`'s; `again.sh` gives its table
    once more in an empty home."""
    first = make_trainer(warm_start="true").start()
    mosaic = _command(first)
    mosaic("experiment", "run", *STUDY, "--total-timesteps", "4", "--step-ms", "1", "--wait")
    page, folder = tmp_path / "study.html", tmp_path / "files"
    written = mosaic.json(
        "report", "study", *METRIC, "-o", str(page), "--pdf", "--files", str(folder)
    )
    assert len(written["runs"]) == 4
    assert page.with_suffix(".pdf").read_bytes().startswith(b"%PDF-")
    compared = ("compare", "experiment=study", *METRIC)
    found = re.search(r'id="data-experiment-study">(.*?)</script>', page.read_text())
    assert found is not None
    assert json.loads(found[1]) == mosaic.json(*compared)
    assert (folder / "experiment-study.tex").read_text() == mosaic(*compared, "--latex")
    assert mosaic("report", "stud", code=2).count("did you mean 'study'?") == 1

    second = make_trainer("another", warm_start="true").start()
    environment = _command(second).environment
    environment["PATH"] = f"{Path(MOSAIC).parent}:{environment['PATH']}"
    done = subprocess.run(
        ["sh", "again.sh"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == mosaic(*compared)


@pytest.mark.prove
def test_runs_are_reported_without_an_experiment(trainer: Trainer, tmp_path: Path) -> None:
    """Any run can be reported on; one seed gives no interval, and the page says so."""
    mosaic = _command(trainer)
    mosaic("train", "climber", "--slope", "2", "--total-timesteps", "3", "--step-ms", "1")
    page = tmp_path / "one.html"
    mosaic("report", "last", *METRIC, "-o", str(page), "--notes", "first <try>")
    text = page.read_text()
    assert "first &lt;try&gt;" in text
    assert "fewer than 3 seeds: this shows nothing" in text
    missing = tmp_path / "no" / "x.html"
    assert "there is no folder" in mosaic("report", "last", *METRIC, "-o", str(missing), code=2)
