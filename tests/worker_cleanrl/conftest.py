"""Keeps every process of these tests to one core, and sees that none is left."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psutil
import pytest
from support.patience import PATIENCE_S

os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="package", autouse=True)
def _nothing_is_left_running() -> Iterator[None]:
    """After these tests no process of theirs is alive, neither started nor forked for one."""
    yield
    commands = {process: _command(process) for process in psutil.Process().children(recursive=True)}
    servers = [process for process, command in commands.items() if "forkserver" in command]
    forked = [child for server in servers for child in server.children(recursive=True)]
    started = [
        process
        for process, command in commands.items()
        if "cleanrl_worker" in command and process not in servers
    ]
    _, alive = psutil.wait_procs({*forked, *started}, timeout=PATIENCE_S)
    assert not alive


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
