"""A training process ends when it is asked to, even where it cannot save first."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

STUCK = """
import sys
from cleanrl_worker.kit import control
from cleanrl_worker.kit.bridge import Bridge
control.PATIENCE_S = float(sys.argv[1])
control.Control(Bridge()).start()
print("stuck", flush=True)
while True:
    pass
"""


def _stuck(patience_s: float) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK, str(patience_s)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "stuck\n"
    return process


def test_one_signal_ends_a_loop_without_a_safe_point_after_a_while() -> None:
    """Nobody has to reach for SIGKILL, and it says that nothing was saved."""
    process = _stuck(patience_s=0.2)
    process.send_signal(signal.SIGTERM)
    _, text = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert "ended without saving: no safe point" in text


def test_a_second_signal_ends_it_at_once() -> None:
    """Asking twice means now."""
    process = _stuck(patience_s=3600.0)
    process.send_signal(signal.SIGTERM)
    # Two signals that arrive together are one: the first must have been handled.
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1.0)
    process.send_signal(signal.SIGTERM)
    _, text = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert "ended without saving: it was asked to twice" in text
