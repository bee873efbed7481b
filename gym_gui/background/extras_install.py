"""Installs requirement sets from the window, by the command that people type; never its thread."""

import os
import subprocess
import sys
from collections.abc import Sequence

from mosaic.config.paths import Home
from mosaic.errors import MosaicError


def install_sets(home: Home, names: Sequence[str]) -> str:
    """Install sets into a bundle of a home; the last line of what the installer said.

    Raises:
        MosaicError: It failed; the text is its last line.
    """
    done = subprocess.run(
        [sys.executable, "-P", "-m", "mosaic", "extras", *names],
        env={**os.environ, "MOSAIC_HOME": str(home.root)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    last = lines[-1] if lines else f"it ended with exit code {done.returncode}"
    if done.returncode:
        raise MosaicError(f"not installed: {last}")
    return last
