"""What a person can do by mouse alone, from an empty home."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mosaic.config.paths import project_root

SCRIPT = project_root() / "scripts" / "experiment_pictures.py"


@pytest.mark.prove
@pytest.mark.parametrize("screen", [(), ("--size", "1024x700", "--font", "14")])
def test_two_algorithms_are_trained_evaluated_and_compared_by_mouse(
    tmp_path: Path, screen: tuple[str, ...]
) -> None:
    """Ten runs watched, evaluated in one press, compared with intervals; also on a small screen."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--out", str(tmp_path), *screen],
        cwd=SCRIPT.parent,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    names = ("form", "watch", "evaluate", "curves", "results", "evaluated")
    assert {path.name for path in tmp_path.iterdir()} == {f"experiment-{n}.png" for n in names}
