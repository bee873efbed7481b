"""From a run to the exact command, environment and checks with which it is started."""

import fcntl
import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from mosaic.config.paths import HOME_VARIABLE, Home
from mosaic.config.secrets import SecretStore
from mosaic.config.sites import LOCAL
from mosaic.connect import auth
from mosaic.runs.directory import RunDirectory
from mosaic.runs.opening import clear_the_way, open_regular
from mosaic.system import atomic
from mosaic.system.processes import MARKER, boot_id
from mosaic.trainer.core.states import Run
from mosaic.trainer.launch.executor import LaunchSpec
from mosaic.workers.discovery import DiscoveredWorker

# What a worker must not inherit from the shell in which the daemon was started.
_PRIVATE_PREFIXES = ("MOSAIC_",)
# Whoever kills a worker again and again means it, and one that breaks on its own records would
# break each time.
MOST_RESTARTS = 5
_NEVER_INHERITED = frozenset({"WANDB_API_KEY"})


def build_spec(
    run: Run,
    home: Home,
    token: bytes,
    target: str,
    environment: Mapping[str, str],
    defaults: Mapping[str, str],
    private: frozenset[str],
    restarts: int = 0,
) -> LaunchSpec:
    """Everything the supervisor needs to start a run.

    Args:
        run: A run with its slots.
        home: The home it belongs to.
        token: The home's token, from which the launch key is derived.
        target: The daemon's address.
        environment: Extra variables of the run's own config.
        defaults: Variables of the settings, for a worker that inherits no such variable.
        private: Variables of the daemon's environment that no worker inherits.
        restarts: How often its worker is started again after a kill.
    """
    run_dir = home.run_dir(run.run_id)
    config = home.configs / f"worker-{run.run_id}.json"
    argv = (sys.executable, "-m", run.module, "--config", str(config), "--grpc")
    private = private | _NEVER_INHERITED
    inherited = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(_PRIVATE_PREFIXES) and key not in private
    }
    gpus = [slot.removeprefix("gpu:") for slot in run.slots if slot.startswith("gpu:")]
    contract = {
        MARKER: run.run_id,
        "MOSAIC_RUN_DIR": str(run_dir),
        HOME_VARIABLE: str(home.root),
        "MOSAIC_LAUNCH_KEY": auth.launch_key(token, run.run_id),
        # Empty without a GPU slot: what was not granted must not be visible either.
        "CUDA_VISIBLE_DEVICES": ",".join(gpus),
        # The daemon follows the output line by line, and a killed worker cannot flush.
        "PYTHONUNBUFFERED": "1",
    }
    # One thread for each run: slots are counted in CPUs. Offscreen rendering needs no display.
    usual = {"OMP_NUM_THREADS": "1", "MUJOCO_GL": "egl", **defaults}
    if run.attempt > 1:
        # As after a restart by its supervisor: the worker continues what it has written.
        contract["MOSAIC_RESTARTS"] = str(run.attempt - 1)
    secrets = SecretStore(home.secrets).environment(run.run_id)
    # The later one wins: a run may change what it inherits, but never the contract.
    given = {**environment, **secrets, **contract}
    queued_there = run.slots == (run.site,)
    return LaunchSpec(
        run_id=run.run_id,
        run_dir=run_dir,
        argv=(*argv, "--grpc-target", target),
        env={**usual, **inherited, **given},
        cwd=run_dir,
        boot_id=boot_id(),
        restarts=restarts,
        attempt=run.attempt,
        site="" if run.site == LOCAL else run.site,
        # Where no slot of ours names the GPU, its engine does, in the node's own environment.
        from_node=("CUDA_VISIBLE_DEVICES",) if run.request.gpus and queued_there else (),
        usual=usual,
        given=given,
        private=private,
    )


def prevent_start(directory: RunDirectory) -> bool:
    """Write a run's end before its supervisor begins, under the lock that it needs.

    Returns:
        False when a supervisor holds the lock or has begun: then it lives or has lived.
    """
    # Under the supervisor's own lock, so that one of the two sees what the other has done. What is
    # no file no supervisor can lock either, so it can be moved away.
    clear_the_way(directory.supervisor_lock)
    flags = os.O_RDWR | os.O_CREAT
    descriptor = open_regular(directory.path, directory.supervisor_lock.name, flags)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        if directory.supervisor.exists():
            return False
        atomic.write_json(directory.exit, {"error": "the supervisor never began"})
        return True
    finally:
        os.close(descriptor)


def preflight(run: Run, worker: DiscoveredWorker | None) -> str:
    """Why a worker cannot be started at all, with the fix; empty when it can."""
    if worker is None:
        return f"no worker {run.worker!r} is installed any more; `mosaic workers` lists them"
    if worker.capabilities is None:
        return f"the worker {run.worker!r} cannot be used: {worker.problem}"
    command = f"{sys.executable} -m {run.module}"
    if not Path(sys.executable).exists() or shutil.which(sys.executable) is None:
        return f"cannot run `{command}`: the interpreter is gone; run: make setup"
    try:
        found = importlib.util.find_spec(run.module)
    except (ImportError, ValueError):
        found = None
    if found is None:
        hint = worker.capabilities.install_hint or "make setup"
        return f"cannot run `{command}`: no module named {run.module!r}; run: {hint}"
    return ""
