"""`mosaic extras`: the optional packages of workers, listed, checked and installed."""

import subprocess
import sys
from collections.abc import Sequence

import click

from mosaic.errors import InvalidArgumentError
from mosaic.workers.capabilities import WorkerCapabilities
from mosaic.workers.discovery import discover


@click.command()
@click.argument("sets", nargs=-1)
@click.option("--check", is_flag=True, help="Say what is missing, install nothing.")
@click.option("--rebuild", is_flag=True, help="Build the bundle again.")
@click.option("--worker", default="", help="Worker to use, if several have extras.")
def extras(sets: Sequence[str], check: bool, rebuild: bool, worker: str) -> int:
    """List optional packages, or install SETS such as `atari` or `jax`.

    What is missing goes into a bundle of its own; runs that need it use it by themselves.
    """
    words = ["--list"] if not sets and not check else []
    if sets:
        words += ["--set", ",".join(name for item in sets for name in item.split(","))]
    words += [flag for flag, wanted in (("--check", check), ("--rebuild", rebuild)) if wanted]
    chosen = _with_extras(worker)
    return subprocess.call([sys.executable, "-P", "-m", chosen.extras, *words])


def _with_extras(name: str) -> WorkerCapabilities:
    able = {
        found.worker_type: found.capabilities
        for found in discover().values()
        if found.capabilities and found.capabilities.extras
    }
    if name in able:
        return able[name]
    if len(able) == 1 and not name:
        return next(iter(able.values()))
    if not able:
        raise InvalidArgumentError("no installed worker has extras")
    raise InvalidArgumentError(f"choose with --worker: {', '.join(sorted(able))}")
