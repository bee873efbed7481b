"""Checks that an algorithm file resumes exactly.

    python -m cleanrl_worker.running.verification ppo

Three runs: the whole schedule at once; the first half, stopped; the second half, resumed.
Everything in the two final full-state checkpoints must be equal to the last bit.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cleanrl_worker.kit.types import StateDict
from cleanrl_worker.running import checkpoint_files, checkpoints
from cleanrl_worker.running.schema import SCRIPTS, read_schema, script_names
from cleanrl_worker.running.state_digest import compare

# Processes that have imported the slow parts already start in a twentieth of the time.
_WARM = multiprocessing.get_context("forkserver")
_WARM.set_forkserver_preload(
    # The first says to what is forked how old its modules are.
    ["mosaic.system.interpreter", "torch", "gymnasium", "cleanrl_worker.kit.script"]
)


def run_script(algorithm: str | Path, flags: Sequence[str], output: Path) -> int:
    """Run an algorithm file as a program in a warm process of its own.

    Args:
        algorithm: the name of a bundled algorithm file, or the path of another one.
        flags: Its command line.
        output: The file that takes what it prints.

    Returns:
        Its exit status.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    process = _WARM.Process(target=_as_program, args=(str(algorithm), list(flags), str(output)))
    process.start()
    process.join()
    status = process.exitcode
    process.close()
    assert status is not None, "a process that was joined has an exit status"
    return status


def _as_program(algorithm: str, flags: list[str], output: str) -> None:
    with open(output, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = [algorithm, *flags]
    if algorithm.endswith(".py"):
        runpy.run_path(algorithm, run_name="__main__")
        return
    runpy.run_module(f"cleanrl_worker.cleanrl.{algorithm}", run_name="__main__", alter_sys=True)


def train(algorithm: str | Path, run_dir: Path, *flags: str) -> None:
    """Train into a run directory.

    Raises:
        RuntimeError: With the output, when it fails.
    """
    output = run_dir.with_suffix(".log")
    status = run_script(algorithm, [*flags, "--run-dir", str(run_dir)], output)
    if status:
        raise RuntimeError(f"{algorithm} {' '.join(flags)} exited {status}:\n{output.read_text()}")


def resume_differences(algorithm: str, half: int, flags: Sequence[str], folder: Path) -> list[str]:
    """Train at once and in two halves, and compare everything.

    Args:
        algorithm: The algorithm file's name.
        half: The step at which to stop; the whole schedule is twice as long.
        flags: Further flags for all runs.
        folder: Where the three runs go.

    Returns:
        The names of all values that differ; empty when resume is exact.
    """
    # The stopped half knows the whole schedule: learning rates and exploration depend on it.
    schedule = [*flags, "--total-timesteps", str(2 * half)]
    train(algorithm, folder / "whole", *schedule)
    train(algorithm, folder / "first", *schedule, "--stop-at", str(half))
    train(algorithm, folder / "second", *schedule, "--resume", str(folder / "first"))
    whole, second = (_newest(folder / name) for name in ("whole", "second"))
    if not half <= _newest(folder / "first")["step"] < 2 * half:
        return ["step"]
    return list(compare(whole, second).different)


def _newest(run_dir: Path) -> StateDict:
    return checkpoints.load(checkpoint_files.find(run_dir)[0])


def smoke_flags(algorithm: str) -> tuple[list[str], int]:
    """The flags of a quick run on the CPU, where resume is exact, and half the steps it takes."""
    steps = read_schema(SCRIPTS / f"{algorithm}.py").smoke["total_timesteps"]
    assert isinstance(steps, int), f"SMOKE of {algorithm} has no number of steps"
    return ["--smoke", "--no-cuda"], steps // 2


def main() -> int:
    """Check the algorithms named on the command line, or all of them."""
    failed = False
    for algorithm in sys.argv[1:] or script_names():
        flags, half = smoke_flags(algorithm)
        with tempfile.TemporaryDirectory() as folder:
            differences = resume_differences(algorithm, half, flags, Path(folder))
        failed |= bool(differences)
        print(f"{algorithm}: {'differs in ' + ', '.join(differences) if differences else 'exact'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
