"""What Ray holds for a run frees its place when no run comes."""

import subprocess
import sys

from support.patience import PATIENCE_S

_PROGRAM = """
import time
from mosaic.agent import ray_holder

ray_holder._BEGIN_S = 0.2
ray_holder._check_the_way = lambda target: time.sleep(1.0)
holder = ray_holder.Holder()
{then}
time.sleep({left})
print("still there")
"""


def _said(then: str, left: float) -> str:
    program = _PROGRAM.format(then=then, left=left)
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    return done.stdout


def test_an_actor_for_which_no_run_comes_frees_its_place() -> None:
    """CPUs are not held for a daemon that died while Ray looked for a node."""
    assert _said("", left=600.0) == ""


def test_an_actor_whose_run_begins_stays() -> None:
    """A node that needs a while to start its agent is not taken for an idle one."""
    begin = """
import subprocess
subprocess.run = lambda *_, **__: subprocess.CompletedProcess([], 1, "", "none")
try:
    holder.begin({"target": "x", "run_id": "r"})
except RuntimeError:
    pass
"""
    assert _said(begin, left=0.5) == "still there\n"
