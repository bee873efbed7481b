"""Shell scripts for multi-phase training, described by their header (`mosaic.config.pipeline`).

bash runs the file as it is: nothing is ever put into a command line. Settings reach the script as
environment variables. A line `@phase NAME` on its stdout begins a phase; where the script prints
none, every run of the worker inside it is a phase of its own.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cleanrl_worker.config import CleanRLWorkerConfig, problem
from cleanrl_worker.modes.plan import Plan
from mosaic.config.pipeline import read_header
from mosaic.workers import Problem

BAD_SCRIPT = "CFG133"
_FIELD = "extras/script_path"
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def complete(config: CleanRLWorkerConfig, run_dir: Path | None) -> CleanRLWorkerConfig:
    """The script says how many steps it takes in all."""
    try:
        header = read_header(_path(config))
    except ValueError:
        return config
    return config.with_overrides(
        algo=config.algo or "script",
        total_timesteps=config.total_timesteps or header.total_timesteps or None,
    )


def problems(
    config: CleanRLWorkerConfig, run_dir: Path | None, *, thorough: bool
) -> Iterator[Problem]:
    """The script must be there, be a shell script, and describe itself sensibly."""
    if not config.extras.script_path:
        yield problem(_FIELD, BAD_SCRIPT, "'script_path' is required: a *.sh file")
        return
    path = _path(config)
    if path.suffix != ".sh":
        yield problem(_FIELD, BAD_SCRIPT, f"{path} is not a *.sh file")
        return
    try:
        read_header(path)
    except ValueError as error:
        yield problem(_FIELD, BAD_SCRIPT, str(error))
    for name in config.parameters:
        if not _VARIABLE_NAME.fullmatch(name):
            text = f"{name!r} cannot be the name of an environment variable"
            yield problem(f"extras/{name}", BAD_SCRIPT, text)


def plan(config: CleanRLWorkerConfig, run_dir: Path) -> Plan:
    """bash on the file, with the settings in its environment."""
    return Plan(pipeline=_path(config), environment=_variables(config), obeys=False, folder=run_dir)


def _variables(config: CleanRLWorkerConfig) -> dict[str, str]:
    given: dict[str, Any] = {
        "ALGO": config.algo if config.algo != "script" else None,
        "ENV_ID": config.env_id or None,
        "SEED": config.seed,
        "TOTAL_TIMESTEPS": config.total_timesteps,
        **{f"PARAM_{name.upper()}": value for name, value in config.parameters.items()},
    }
    folder = str(Path(sys.executable).parent)
    return {
        **{f"MOSAIC_{name}": _text(value) for name, value in given.items() if value is not None},
        # `python` in the script is the interpreter that has the worker.
        "PATH": os.pathsep.join([folder, os.environ.get("PATH", os.defpath)]),
    }


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _path(config: CleanRLWorkerConfig) -> Path:
    return Path(config.extras.script_path or "").expanduser().absolute()
