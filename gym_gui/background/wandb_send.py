"""Sends a run that was tracked offline to W&B; takes a while, so never on the GUI thread."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from gym_gui.background.wandb_probe import probe_wandb
from mosaic.errors import MosaicError

# Of the folder's size and the line's speed depends how long it takes; this is a forgotten one.
_LIMIT_S = 1800.0


def can_send() -> bool:
    """Whether W&B's own program is installed beside the window."""
    return importlib.util.find_spec("wandb") is not None


def knows_a_key() -> bool:
    """Whether W&B finds a key without asking."""
    netrc = Path(os.environ.get("NETRC") or Path.home() / ".netrc")
    return bool(os.environ.get("WANDB_API_KEY")) or netrc.exists()


def send(folder: str, key: str) -> str:
    """Run `wandb sync` for a folder; what it said last.

    Args:
        folder: The run's `offline-run-*`.
        key: The API key; empty uses the one that W&B knows.

    Raises:
        MosaicError: W&B cannot be reached, or refused it.
    """
    address = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")
    # Asked first: W&B itself would try for minutes.
    said = probe_wandb(address=address)
    if "cannot be reached" in said:
        raise MosaicError(said)
    # In the environment: a command line is visible to every user of the machine.
    known = {"WANDB_API_KEY": key} if key else {}
    done = subprocess.run(
        [sys.executable, "-m", "wandb", "sync", folder],
        env={**os.environ, **known},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    last = lines[-1] if lines else f"wandb ended with exit code {done.returncode}"
    if done.returncode:
        raise MosaicError(f"W&B did not take it: {last}")
    return last
