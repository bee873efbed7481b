"""Where the trainings inside a script keep what would otherwise get among each other's files."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

# Where the script of a run keeps its files; only inside a script.
SCRIPT_DIR = "MOSAIC_SCRIPT_DIR"
_PHASES = "phases"


def curves_folder(run_dir: Path) -> Path:
    """Where the training of this process writes its curves: in a script, in a new folder.

    A new one, also where phases share a run directory or a script is run a second time after its
    machine was taken away: so a folder has the points of one training and no others.
    """
    script = os.environ.get(SCRIPT_DIR)
    if not script:
        return run_dir
    for number in itertools.count(1):
        folder = Path(script, _PHASES, str(number))
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise AssertionError("counting never ends")


def event_folder(run_dir: Path, asked: str) -> Path:
    """Where the event files of a run go.

    Args:
        run_dir: The run directory.
        asked: The folder that its configuration names, relative to the run directory.
    """
    script = os.environ.get(SCRIPT_DIR)
    # A phase in the directory of its script: its steps begin at 0 and must not get among those of
    # the whole run, which are in the folder that is asked for.
    shares = script is not None and run_dir.resolve() == Path(script).resolve()
    return run_dir / _PHASES / asked if shares else run_dir / asked
