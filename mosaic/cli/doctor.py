"""`mosaic doctor`: what is installed, what is missing, and the command that helps."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from mosaic.cli import output
from mosaic.cli.options import json_option
from mosaic.client.connection import prove, read_token
from mosaic.config.paths import Home, how_to_install
from mosaic.config.settings import load_settings
from mosaic.connect.channel import open_channel
from mosaic.connect.endpoint import find_endpoint
from mosaic.errors import DaemonNotRunningError, MosaicError
from mosaic.trainer.launch import hardware
from mosaic.workers import hooks
from mosaic.workers.discovery import discover

# Long enough for a slow proxy, short enough to wait for.
_PROBE_S = 5.0


@dataclass(frozen=True)
class Finding:
    """The result of one check; `level` is ok, note or bad."""

    level: str
    what: str
    detail: str


@click.command()
@click.option("--online", is_flag=True, help="Also check that W&B can be reached.")
@json_option
def doctor(online: bool, as_json: bool) -> int:
    """Check this installation.

    Exits with 1 if something must be fixed.
    """
    findings = [*examine(Home.locate()), *(_connections() if online else ())]
    if as_json:
        output.print_json([asdict(finding) for finding in findings])
    else:
        styles = {"ok": "green", "note": "yellow", "bad": "bold red"}
        for finding in findings:
            mark = output.Styled(f"{finding.level:<4}", styles[finding.level])
            output.say(mark, f"{finding.what}: {finding.detail}")
    return int(any(finding.level == "bad" for finding in findings))


def examine(home: Home) -> Iterator[Finding]:
    """Check everything a run depends on."""
    version = sys.version.split()[0]
    fits = sys.version_info[:2] >= (3, 11)
    yield Finding("ok" if fits else "bad", "python", f"{version} at {sys.executable}")
    yield from _home(home)
    yield from _daemon(home)
    yield from _workers()
    yield from _machine(home)
    yield from _optional_parts()


def _home(home: Home) -> Iterator[Finding]:
    try:
        home.create()
        load_settings(home)
        yield Finding("ok", "home", str(home.root))
    except OSError as error:
        yield Finding("bad", "home", f"{home.root}: {error.strerror}; choose another MOSAIC_HOME")
    except MosaicError as error:
        yield Finding("bad", "settings", str(error))


def _daemon(home: Home) -> Iterator[Finding]:
    try:
        endpoint = find_endpoint(home)
        with open_channel(endpoint.address) as channel:
            health = prove(channel, read_token(home))
        text = f"pid {health.pid}, {endpoint.target}, version {health.version}"
        yield Finding("ok", "daemon", text)
        if health.notice:
            yield Finding("bad", "daemon", health.notice)
    except DaemonNotRunningError as error:
        yield Finding("note", "daemon", str(error))
    except MosaicError as error:
        yield Finding("bad", "daemon", str(error))


def _workers() -> Iterator[Finding]:
    for worker in discover().values():
        if worker.capabilities is None:
            # Missing is a choice, broken is not.
            level = "note" if worker.problem.startswith("not installed") else "bad"
            yield Finding(level, f"worker {worker.worker_type}", worker.problem)
        elif not _module_exists(worker.capabilities.module):
            hint = worker.capabilities.install_hint or "make setup"
            text = f"module {worker.capabilities.module} is missing; run: {hint}"
            yield Finding("bad", f"worker {worker.worker_type}", text)
        elif broken := hooks.failures(worker.capabilities):
            for error in broken:
                yield Finding("bad", f"worker {worker.worker_type}", str(error))
        else:
            yield Finding("ok", f"worker {worker.worker_type}", worker.display_name)


def _connections() -> Iterator[Finding]:
    """Whether the host of Weights & Biases answers, directly or through a proxy."""
    from urllib.request import getproxies

    from mosaic.system.web import unreachable

    address = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")
    proxies = getproxies()
    way = f"through {proxies['https']}" if "https" in proxies else "directly"
    reason = unreachable(address, _PROBE_S)
    if reason:
        yield Finding("note", "W&B", f"no answer {way} from {reason}; runs stay offline")
    else:
        yield Finding("ok", "W&B", f"{address} answers {way}")


def _module_exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except Exception:
        # Looking for `package.module` imports the package, which may raise anything.
        return False


def _machine(home: Home) -> Iterator[Finding]:
    gpus = hardware.probe_gpus()
    names = ", ".join(gpu.name for gpu in gpus) or "none (runs use the CPU)"
    text = f"{hardware.cpu_count()} CPUs, {hardware.memory_total_mb():,} MB, GPUs: {names}"
    yield Finding("ok", "machine", text)
    # `_home` may have failed to create it; then the disk of the working directory has to do.
    root = home.root if home.root.exists() else Path.cwd()
    free = hardware.disk_free_mb(root)
    yield Finding("ok" if free > 1000 else "bad", "disk", f"{free:,} MB free at {root}")
    shared = shutil.disk_usage("/dev/shm").free // 2**20 if Path("/dev/shm").exists() else 0
    # Three frames of the usual size take a few megabytes; less than this is soon used up.
    level = "ok" if shared >= 16 else "note"
    yield Finding(level, "shared memory", f"{shared:,} MB free for live frames")


def _optional_parts() -> Iterator[Finding]:
    parts = {
        "qtpy": ("the window", how_to_install("setup-gui", "gui")),
        "tensorboard": ("TensorBoard", how_to_install("setup", "cleanrl")),
        "wandb": ("Weights & Biases", how_to_install("setup-all", "wandb")),
    }
    for module, (what, command) in parts.items():
        if importlib.util.find_spec(module) is None:
            yield Finding("note", what, f"not installed; run: {command}")
        else:
            yield Finding("ok", what, "installed")
