"""What a person can do by mouse alone, from an empty home."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mosaic.config.paths import project_root

SCRIPTS = project_root() / "scripts"


# Twenty runs one after the other; the script has its own limit for each step.
@pytest.mark.timeout(3600)
@pytest.mark.prove
@pytest.mark.parametrize("screen", [(), ("--size", "1024x700", "--font", "14")])
def test_two_algorithms_are_trained_evaluated_and_compared_by_mouse(
    tmp_path: Path, screen: tuple[str, ...]
) -> None:
    """Ten runs watched, evaluated in one press, compared with intervals; also on a small screen."""
    _go_through("experiment_pictures.py", "--out", str(tmp_path), *screen)
    names = ("form", "watch", "evaluate", "curves", "results", "evaluated")
    assert {path.name for path in tmp_path.iterdir()} == {f"experiment-{n}.png" for n in names}


@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_a_sweep_ends_in_a_report_by_mouse(tmp_path: Path) -> None:
    """A sweep with seeds, its study, the best with five fresh seeds, and a page handed over."""
    _go_through("sweep_pictures.py", "--out", str(tmp_path))
    names = ("form", "study", "best", "report")
    assert {path.name for path in tmp_path.iterdir()} == {f"sweep-{n}.png" for n in names}


@pytest.mark.prove
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("screen", [(), ("--size", "1024x700", "--font", "14")])
def test_a_curriculum_and_phases_are_built_by_mouse(
    tmp_path: Path, screen: tuple[str, ...]
) -> None:
    """Without a file: stages and phases are added, mistakes are named, charts show both."""
    _go_through("phases_pictures.py", "--out", str(tmp_path), *screen)
    names = ("curriculum", "stages", "mistake", "form", "script", "charts")
    assert {path.name for path in tmp_path.iterdir()} == {f"phases-{n}.png" for n in names}


def _go_through(script: str, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / script), *words],
        cwd=SCRIPTS,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
