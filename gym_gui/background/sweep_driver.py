"""Sweeps that are driven by a process of their own: they continue when the window is closed."""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from mosaic.config.paths import Home
from mosaic.errors import MosaicError

# From the process to its first run: Optuna is imported, the worker is asked, a run is submitted.
# On a machine with much to do that may take a while.
_BEGIN_LIMIT_S = 180.0
_LOOK_S = 0.1
_BEGUN = re.compile(r"^sweep (\w+): ", re.MULTILINE)


def drive(home: Home, words: Sequence[str]) -> str:
    """Start `mosaic sweep …` for a home and wait until its first run exists. May block.

    Returns:
        The id of the sweep.

    Raises:
        MosaicError: It was refused, with what the command said.
    """
    process, log = _detached(home, words)
    deadline = time.monotonic() + _BEGIN_LIMIT_S
    while time.monotonic() < deadline:
        text = log.read_text(errors="replace")
        begun = _BEGUN.search(text)
        if begun:
            # It outlives us: there is nothing to wait for.
            process.returncode = 0
            return begun[1]
        if process.poll() is not None:
            raise MosaicError(text.strip().removeprefix("mosaic: ") or "the sweep did not start")
        time.sleep(_LOOK_S)
    process.kill()
    process.wait()
    raise MosaicError(f"the sweep did not start within {_BEGIN_LIMIT_S:.0f} s")


def run_on(home: Home, words: Sequence[str]) -> None:
    """Start `mosaic sweep …` and leave it alone: what it does is seen in the study."""
    process, _ = _detached(home, words)
    process.returncode = 0


def _detached(home: Home, words: Sequence[str]) -> "tuple[subprocess.Popen[bytes], Path]":
    folder = home.cache / "sweeps"
    folder.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix="sweep-", suffix=".log", dir=folder)
    with os.fdopen(descriptor, "wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "mosaic", *words],
            env={**os.environ, "MOSAIC_HOME": str(home.root), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            # The window's end is not meant for it.
            start_new_session=True,
            cwd="/",
        )
    return process, Path(name)
