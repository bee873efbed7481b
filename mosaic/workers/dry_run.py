"""A worker's `dry_run` hook for workers whose own command has `--dry-run`."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path


def by_command(module: str, config: Mapping[str, object], limit_s: float) -> tuple[bool, str]:
    """Check a configuration as the worker's command does, in a process of its own.

    Args:
        module: What `python -m` starts.
        config: The configuration.
        limit_s: Patience with it.

    Returns:
        Whether the configuration fits, and what the command said.
    """
    with tempfile.TemporaryDirectory(prefix="mosaic-dry-run-") as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(dict(config)))
        done = subprocess.run(
            [sys.executable, "-m", module, "--config", str(path), "--dry-run"],
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
            # What an environment writes beside itself goes away with the folder.
            cwd=folder,
        )
    return done.returncode == 0, (done.stdout + done.stderr).strip()
