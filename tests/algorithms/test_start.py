"""How soon a script is ready to train."""

import subprocess
import sys
from pathlib import Path

# Half of a script's start, when it was imported by accident: torch's compiler and its algebra.
_SCRIPT = """
import importlib, pkgutil, runpy, sys
import cleanrl_worker.cleanrl as scripts
for module in pkgutil.iter_modules(scripts.__path__):
    if "jax" not in module.name and "ondevice" not in module.name:
        importlib.import_module(f"{scripts.__name__}.{module.name}")
        assert "torch._dynamo" not in sys.modules, module.name
sys.argv = ["ppo", "--env-id", "MiniGrid-Empty-5x5-v0", "--total-timesteps", "512"]
sys.argv += ["--run-dir", FOLDER]
runpy.run_module("cleanrl_worker.cleanrl.ppo", run_name="__main__", alter_sys=True)
loaded = [name for name in ("torch._dynamo", "sympy") if name in sys.modules]
assert not loaded, loaded
"""


def test_no_script_waits_for_a_compiler_that_it_does_not_use(tmp_path: Path) -> None:
    """Importing and running a script loads nothing of torch's compiler unless `--compile` asks."""
    script = _SCRIPT.replace("FOLDER", repr(str(tmp_path)))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
