"""The dry run: everything is resolved and checked, nothing is launched."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypedDict

from cleanrl_worker import bundles, foresight
from cleanrl_worker.config import CleanRLWorkerConfig, problem
from cleanrl_worker.kit.compiler import missing_compiler
from cleanrl_worker.modes import pipeline
from cleanrl_worker.resolution import resolve
from cleanrl_worker.runtime import CleanRLWorkerRuntime
from cleanrl_worker.validation import find_problems
from cleanrl_worker.wrappers.curriculum import read_schedule
from mosaic.workers import Home, Problem

_LIMIT_S = 120.0
_LEAST_DISK_MB = 200


class Summary(TypedDict, total=False):
    """What a dry run found out; only a run that was not refused has a command."""

    ok: bool
    mode: str
    algo: str
    env_id: str
    seed: int | None
    total_timesteps: int | None
    problems: list[dict[str, str]]
    command: list[str]
    requirements: list[str]
    curriculum: list[dict[str, object]]
    script: str
    module: str
    remarks: list[str]
    notes: dict[str, object]


def examine(config: CleanRLWorkerConfig, run_dir: Path, gpus: int = 0) -> Summary:
    """Resolve and check a run; the summary that `--emit-summary` prints.

    Args:
        config: The run.
        run_dir: Where its files would go.
        gpus: How many GPUs are reserved for it.
    """
    problems = [
        *find_problems(config, run_dir, thorough=True),
        *_machine_problems(config, run_dir),
    ]
    summary: Summary = {
        "ok": not problems,
        "mode": config.mode,
        "algo": config.algo,
        "env_id": config.env_id,
        "seed": config.seed,
        "total_timesteps": config.total_timesteps,
        "problems": [item.__dict__ for item in problems],
    }
    if not problems:
        summary["command"] = CleanRLWorkerRuntime(config, run_dir).command()
        summary.update(_about(config, gpus))
    return summary


def refusal(problems: Sequence[Problem]) -> Summary:
    """The summary of a config that could not even be read."""
    return {"ok": False, "problems": [item.__dict__ for item in problems]}


def _about(config: CleanRLWorkerConfig, gpus: int) -> Summary:
    if config.mode == "script":
        file = config.extras.script_path or pipeline.BUILT_SCRIPT
        return {"script": file, "notes": asdict(pipeline.header_for(config))}
    stages = read_schedule(config.extras.curriculum_schedule)
    about: Summary = {"requirements": bundles.applied(config)["sets"]}
    if isinstance(stages, list) and stages:
        about["curriculum"] = [asdict(stage) for stage in stages]
    if config.algo and config.mode in ("train", "resume_training"):
        script = resolve(config.algo)
        about |= {"script": str(script.path), "module": script.module}
        about["remarks"] = foresight.notes(config, script, gpus)
    return about


def report(summary: Summary) -> str:
    """The summary for people."""
    if not summary["ok"]:
        lines = [str(Problem(**item)) for item in summary["problems"]]
        return "\n".join([f"refused: {len(lines)} problem(s)", *(f"  {line}" for line in lines)])
    names = " in ".join(filter(None, (summary["algo"], summary["env_id"])))
    lines = [f"ok: {summary['mode']} {names}"]
    if "script" in summary:
        lines.append(f"script:  {summary['script']}")
    for stage in summary.get("curriculum", []):
        lines.append(f"stage:   {stage['env_id']} until {stage['condition']}")
    lines += [f"note:    {remark}" for remark in summary.get("remarks", [])]
    command = shlex.join(summary["command"])
    return "\n".join([*lines, f"command: {command}", "nothing was launched"])


def dry_run_in_subprocess(config: Mapping[str, object]) -> tuple[bool, str]:
    """Dry-run a config as the command line would, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="mosaic-dry-run-") as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(dict(config)))
        # Where the daemon will put it, under an id that only a submit gives.
        run_dir = Home.locate().runs / "${RUN_ID}"
        command = [sys.executable, "-m", "cleanrl_worker.cli", "--config", str(path), "--dry-run"]
        done = subprocess.run(
            [*command, "--run-dir", str(run_dir), "--gpus", str(_reserved_gpus(config))],
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    return done.returncode == 0, (done.stdout + done.stderr).strip()


def _reserved_gpus(config: Mapping[str, object]) -> int:
    """How many GPUs the whole config reserves; the worker's own part does not say it."""
    found: object = config
    for name in ("resources", "gpus", "requested"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, int) else 0


def _machine_problems(config: CleanRLWorkerConfig, run_dir: Path) -> list[Problem]:
    found = []
    if config.cuda and not _has_nvidia_driver():
        text = "a GPU is asked for, but this machine has no NVIDIA driver; leave cuda out"
        found.append(problem("extras/cuda", "CFG117", text))
    compiles = config.parameters.get("compile") is True
    if compiles and (sentence := missing_compiler(cuda=config.cuda)):
        found.append(problem("extras/compile", "CFG119", sentence))
    existing = next(folder for folder in (run_dir, *run_dir.parents) if folder.exists())
    free = shutil.disk_usage(existing).free // 2**20
    if free < _LEAST_DISK_MB:
        text = f"only {free} MB of disk are free, at least {_LEAST_DISK_MB} MB are needed"
        found.append(Problem("", "CFG118", text))
    return found


def _has_nvidia_driver() -> bool:
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None
