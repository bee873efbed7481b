"""The last moments of a worker's process."""

import os
import subprocess
import sys
from pathlib import Path

_WORKER = """
import time
from mosaic.workers import WorkerProcess, process

process._LINGERS_S = 0.2

def hangs_at_the_end():
    time.sleep(0.6)

with WorkerProcess.start("any", {}, []):
    pass
hangs_at_the_end()
"""


def test_a_worker_that_does_not_exit_says_where_it_hangs(tmp_path: Path) -> None:
    """The error log names the place, so that a hang at the end can be understood later."""
    environment = {**os.environ, "MOSAIC_RUN_ID": "R", "MOSAIC_RUN_DIR": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", _WORKER], env=environment, capture_output=True, text=True, check=True
    )
    assert '"event":"run_completed"' in ended.stdout
    assert "hangs_at_the_end" in ended.stderr
