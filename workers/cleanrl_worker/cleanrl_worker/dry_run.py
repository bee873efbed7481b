"""The dry run: everything is resolved and checked, nothing is launched."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cleanrl_worker.config import CleanRLWorkerConfig, problem
from cleanrl_worker.resolution import resolve
from cleanrl_worker.runtime import CleanRLWorkerRuntime
from cleanrl_worker.validation import find_problems
from mosaic.workers import Problem

_LIMIT_S = 120.0
_LEAST_DISK_MB = 200


def examine(config: CleanRLWorkerConfig, run_dir: Path) -> dict[str, Any]:
    """Resolve and check a run; the summary that `--emit-summary` prints."""
    problems = [*find_problems(config), *_machine_problems(config)]
    summary: dict[str, Any] = {
        "ok": not problems,
        "mode": config.mode,
        "algo": config.algo,
        "env_id": config.env_id,
        "seed": config.seed,
        "total_timesteps": config.total_timesteps,
        "problems": [item.__dict__ for item in problems],
    }
    if not problems:
        script = resolve(config.algo)
        summary["script"] = str(script.path)
        summary["module"] = script.module
        summary["command"] = CleanRLWorkerRuntime(config, run_dir).command()
    return summary


def report(summary: dict[str, Any]) -> str:
    """The summary for people."""
    if not summary["ok"]:
        lines = [str(Problem(**item)) for item in summary["problems"]]
        return "\n".join([f"refused: {len(lines)} problem(s)", *(f"  {line}" for line in lines)])
    return "\n".join(
        [
            f"ok: {summary['algo']} in {summary['env_id']}",
            f"script:  {summary['script']}",
            f"command: {shlex.join(summary['command'])}",
            "nothing was launched",
        ]
    )


def dry_run_in_subprocess(config: Mapping[str, Any]) -> tuple[bool, str]:
    """Dry-run a config as the command line would, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="mosaic-dry-run-") as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(dict(config)))
        done = subprocess.run(
            [sys.executable, "-m", "cleanrl_worker.cli", "--config", str(path), "--dry-run"],
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    return done.returncode == 0, (done.stdout + done.stderr).strip()


def _machine_problems(config: CleanRLWorkerConfig) -> list[Problem]:
    found = []
    if config.cuda and not _has_nvidia_driver():
        text = "a GPU is asked for, but this machine has no NVIDIA driver; leave cuda out"
        found.append(problem("extras/cuda", "CFG117", text))
    free = shutil.disk_usage(Path.cwd()).free // 2**20
    if free < _LEAST_DISK_MB:
        text = f"only {free} MB of disk are free, at least {_LEAST_DISK_MB} MB are needed"
        found.append(Problem("", "CFG118", text))
    return found


def _has_nvidia_driver() -> bool:
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None
