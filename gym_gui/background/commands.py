"""The `mosaic` command for the window, in a process that ends with the window.

For what a window should not do itself: matplotlib keeps the files of its fonts open for as long as
a process lives, exporters import torch, and both take seconds.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from mosaic.client import TrainerClient
from mosaic.connect.elsewhere import CONNECT_VARIABLE
from mosaic.errors import MosaicError

# Seconds for most; a report of hundreds of runs on a busy machine takes minutes.
_LIMIT_S = 1800.0
_TIED = [sys.executable, "-m", "gym_gui.background.dies_with_parent"]


def run_command(client: TrainerClient, *words: str) -> str:
    """What `mosaic WORDS` printed, asked of the window's own daemon. May block.

    Args:
        client: A connection to the daemon that has the runs, here or elsewhere.
        words: The command's words.

    Raises:
        MosaicError: It did not succeed, with what it said.
    """
    with tempfile.TemporaryDirectory(prefix="mosaic-command-") as folder:
        environment = {**os.environ, "MOSAIC_HOME": str(client.home.root)}
        if client.elsewhere is not None:
            # In a file that only we can read: an invitation holds a token.
            invitation = Path(folder) / "invitation.json"
            client.elsewhere.reach().save(invitation)
            environment[CONNECT_VARIABLE] = str(invitation)
        done = subprocess.run(
            [*_TIED, sys.executable, "-m", "mosaic", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    if done.returncode:
        said = done.stderr.strip().removeprefix("mosaic: ")
        raise MosaicError(said or f"mosaic {words[0]} ended with {done.returncode}")
    return done.stdout
