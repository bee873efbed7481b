"""Reports for the window, written by the command in a process that ends with the window.

matplotlib keeps the files of its fonts open for as long as a process lives, and draws for seconds:
neither belongs in a window.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mosaic.client import TrainerClient
from mosaic.connect.elsewhere import CONNECT_VARIABLE
from mosaic.errors import MosaicError

# Seconds for most; an experiment of hundreds of runs on a busy machine takes minutes.
_LIMIT_S = 1800.0
_TIED = [sys.executable, "-m", "gym_gui.background.dies_with_parent"]


def write(client: TrainerClient, words: Sequence[str], page: Path, pdf: bool) -> Path:
    """Write `mosaic report WORDS` into a file; its path. May block.

    Args:
        client: A connection to the daemon that has the runs.
        words: What the report is about.
        page: The file.
        pdf: Whether a PDF is written beside it.

    Raises:
        MosaicError: It could not be written, with the reason.
    """
    command = [sys.executable, "-m", "mosaic", "report", *words, "-o", str(page)]
    with tempfile.TemporaryDirectory(prefix="mosaic-report-") as folder:
        environment = {**os.environ, "MOSAIC_HOME": str(client.home.root)}
        if client.elsewhere is not None:
            # In a file that only we can read: an invitation holds a token.
            invitation = Path(folder) / "invitation.json"
            client.elsewhere.reach().save(invitation)
            environment[CONNECT_VARIABLE] = str(invitation)
        done = subprocess.run(
            [*_TIED, *command, *(["--pdf"] if pdf else [])],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    if done.returncode:
        said = done.stderr.strip().removeprefix("mosaic: ")
        raise MosaicError(said or "the report was not written")
    return page
