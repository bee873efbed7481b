"""A training process ends when it is asked to, even where it cannot save first."""

from __future__ import annotations

import signal
import subprocess
import sys

from support.patience import PATIENCE_S

STUCK = """
import sys
from cleanrl_worker.running import control
from cleanrl_worker.running.bridge import Bridge
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
    _, text = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signal.SIGTERM
    assert "ended without saving: no safe point" in text


ASKED_TWICE = """
import signal, sys
from cleanrl_worker.running.bridge import Bridge
from cleanrl_worker.running.control import Control
Control(Bridge()).start()
for _ in range(2):
    signal.raise_signal(int(sys.argv[1]))
print("has time to save", flush=True)
"""


def _asked_twice(number: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", ASKED_TWICE, str(int(number))]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


def test_a_second_ctrl_c_ends_it_at_once() -> None:
    """Asking twice means now."""
    ended = _asked_twice(signal.SIGINT)
    assert ended.returncode == 128 + signal.SIGINT
    assert "ended without saving: it was asked to twice" in ended.stderr
    assert not ended.stdout


def test_a_second_sigterm_leaves_it_the_time_to_save() -> None:
    """When a script is cancelled, both the daemon and the script's worker signal its phases."""
    assert _asked_twice(signal.SIGTERM).stdout == "has time to save\n"
