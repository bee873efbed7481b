"""Makes the harness importable by the tests beside it, and keeps every process to one core."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="package", autouse=True)
def _nothing_is_left_running() -> Iterator[None]:
    """After these tests no process of theirs is alive: none of the worker's, none forked for one."""
    yield
    everyone = psutil.Process().children(recursive=True)
    forked = [
        child
        for process in everyone
        if "forkserver" in " ".join(process.cmdline())
        for child in process.children(recursive=True)
    ]
    started = [process for process in everyone if "cleanrl_worker" in " ".join(process.cmdline())]
    _, alive = psutil.wait_procs({*forked, *started}, timeout=5)
    assert not alive
