"""An update takes the memory that the one before it freed, without asking the system for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.patience import PATIENCE_S

# What an update on pictures does to memory: it takes a hundred megabytes and frees them.
UPDATES = """
import resource, torch

def update():
    [torch.ones(1 << 20) for _ in range(25)]

# The first ones settle where each piece goes.
for _ in range(5):
    update()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    update()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
KEEPING = "from cleanrl_worker.running.memory import keep_freed_memory; keep_freed_memory()"
TRAINING = """
import runpy, sys
sys.argv = ["ppo", "--smoke", "--run-dir", sys.argv[1]]
runpy.run_module("cleanrl_worker.cleanrl.ppo", run_name="__main__", alter_sys=True)
"""
CHILD = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[2]], check=True)"
# Ten updates touch 250,000 pages.
FEW = 10_000


def _faults(program: str, folder: Path, **environment: str) -> int:
    """The pages that ten updates had to ask for; what comes before them is a program's own."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder / "run"), UPDATES],
        env={**plain, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


def test_a_run_uses_freed_memory_again(tmp_path: Path) -> None:
    """No page is asked for twice in a process that trains."""
    assert _faults(TRAINING + UPDATES, tmp_path) < FEW


def test_a_process_of_the_group_keeps_its_memory_too(tmp_path: Path) -> None:
    """`ppo_atari_multigpu` starts the processes that it shares the work with."""
    assert _faults(f"{KEEPING}\n{CHILD}", tmp_path) < FEW


def test_who_has_set_it_otherwise_is_obeyed(tmp_path: Path) -> None:
    """The C library's own variables come first."""
    own = {"MALLOC_TRIM_THRESHOLD_": "131072"}
    assert _faults(KEEPING + UPDATES, tmp_path, **own) > 10 * FEW
