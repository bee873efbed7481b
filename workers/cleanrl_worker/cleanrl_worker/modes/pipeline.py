"""Shell scripts for multi-phase training, described by comments in the script itself.

    # @description Learn small rooms first, then large ones
    # @phases warm-up, large rooms
    # @total_timesteps 200000

bash runs the file as it is: nothing is ever put into a command line. Settings reach the script as
environment variables. A line `@phase NAME` on its stdout begins a phase; where the script prints
none, every run of the worker inside it is a phase of its own.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cleanrl_worker.config import CleanRLWorkerConfig, problem
from cleanrl_worker.modes.plan import Plan
from mosaic.workers import Problem

BAD_SCRIPT = "CFG133"
_LARGEST = 1_000_000
_NOTE = re.compile(r"^\s*#\s*@(description|phases|total_timesteps)\b[:\s]*(.*?)\s*$", re.MULTILINE)
_FIELD = "extras/script_path"
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class PipelineHeader:
    """What a script says about itself.

    Attributes:
        description: For people.
        phases: The names of its phases, in order.
        total_timesteps: Steps of all phases together; 0 when it does not say.
    """

    description: str
    phases: tuple[str, ...]
    total_timesteps: int


def read_header(path: Path) -> PipelineHeader:
    """Read a script's metadata.

    Raises:
        ValueError: With a sentence, when it cannot be read or says something impossible.
    """
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError(f"{path} is larger than {_LARGEST} bytes: not a script")
        text = path.read_text()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file") from None
    found = dict(_NOTE.findall(text))
    return PipelineHeader(
        found.get("description", ""), _phases(found.get("phases", "")), _total(path, found)
    )


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
    if not config.extras.get("script_path"):
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
    for name in config.script_parameters():
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
        **{f"PARAM_{name.upper()}": value for name, value in config.script_parameters().items()},
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
    return Path(str(config.extras.get("script_path") or "")).expanduser().absolute()


def _phases(text: str) -> tuple[str, ...]:
    if text.isdigit():
        return tuple(f"phase {number + 1}" for number in range(min(int(text), 1000)))
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _total(path: Path, found: dict[str, str]) -> int:
    text = found.get("total_timesteps", "0").replace("_", "").replace(",", "")
    if not text.isdigit():
        raise ValueError(f"{path}: @total_timesteps must be a whole number, not {text!r}")
    return int(text)
