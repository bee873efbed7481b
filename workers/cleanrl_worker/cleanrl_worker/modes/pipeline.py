"""Training in several phases: a shell script of the user's, or one that is made of phases.

A script describes itself by its header (`mosaic.config.pipeline`); `mosaic.config.phases` writes
the one of given phases. bash runs the file as it is: nothing of the user's script is ever put into
a command line. Settings reach it as environment variables. A line `@phase NAME` on its stdout
begins a phase; where the script prints none, every run of the worker inside it is a phase of its
own.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from cleanrl_worker.config import CleanRLWorkerConfig, problem
from cleanrl_worker.modes.plan import Plan
from cleanrl_worker.script_folders import event_folder
from mosaic.config.json_types import JsonValue
from mosaic.config.model import TrainingPhase
from mosaic.config.phases import WARM_START, header_of, phase_problem, script_text
from mosaic.config.pipeline import PipelineHeader, read_header
from mosaic.workers import Problem

BAD_SCRIPT = "CFG133"
# The file that the worker writes into the run directory when the phases are given.
BUILT_SCRIPT = "phases.sh"
_MODULE = "cleanrl_worker.cli"
_FIELD = "extras/script_path"
_PHASES = "extras/script_phases"
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def complete(config: CleanRLWorkerConfig, run_dir: Path | None) -> CleanRLWorkerConfig:
    """The script says how many steps it takes in all."""
    try:
        header = header_for(config)
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
    phases = config.extras.script_phases
    if phases and config.extras.script_path:
        text = "'script_path' and 'script_phases' are two scripts: leave one of them out"
        yield problem(_PHASES, BAD_SCRIPT, text)
        return
    if phases:
        yield from _phase_problems(config, phases)
        return
    if not config.extras.script_path:
        text = "'script_path' is required: a *.sh file; or give 'script_phases'"
        yield problem(_FIELD, BAD_SCRIPT, text)
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


def header_for(config: CleanRLWorkerConfig) -> PipelineHeader:
    """What the script of a run says about itself.

    Raises:
        ValueError: With a sentence, when it cannot be read or says something impossible.
    """
    phases = config.extras.script_phases
    return header_of(phases) if phases else read_header(_path(config))


def plan(config: CleanRLWorkerConfig, run_dir: Path) -> Plan:
    """bash on the file, with the settings in its environment."""
    phases = config.extras.script_phases
    path = run_dir.absolute() / BUILT_SCRIPT if phases else _path(config)
    return Plan(
        pipeline=path,
        pipeline_text=script_text(phases, _MODULE) if phases else "",
        events=event_folder(run_dir, config.extras.tensorboard_dir),
        environment=_variables(config),
        obeys=False,
        folder=run_dir,
    )


def _phase_problems(config: CleanRLWorkerConfig, phases: list[TrainingPhase]) -> Iterator[Problem]:
    """Each phase is judged as the training that it is, at its place among the others."""
    # Here: the check of every mode begins there.
    from cleanrl_worker.validation import find_problems

    parameters: dict[str, JsonValue] = {}
    for place, phase in enumerate(phases):
        # One that continues has the settings of the phase before it, as far as it changes none.
        inherited = parameters if phase.begins == "continued" else {}
        parameters = {**inherited, **phase.parameters}
        if sentence := phase_problem(phases, place):
            yield problem(f"{_PHASES}/{place}", BAD_SCRIPT, sentence)
            continue
        if phase.begins == "warm":
            # Only its presence matters: what it names is written by the phase before.
            parameters[WARM_START] = "."
        alone = CleanRLWorkerConfig.from_document(
            {
                "algo": phase.algo,
                "env_id": phase.env_id,
                "seed": config.seed,
                "total_timesteps": phase.steps,
                "extras": {"algo_params": parameters},
            }
        )
        for found in find_problems(alone):
            yield replace(found, pointer=_within(found.pointer, place))


def _within(pointer: str, place: int) -> str:
    """Where a phase says what a training of its own would say at `pointer`."""
    renamed = {"total_timesteps": "steps"}
    own = pointer.rpartition("/extras/algo_params/")[2] if "algo_params" in pointer else ""
    field = f"parameters/{own}" if own else pointer.rpartition("/")[2]
    return problem(f"{_PHASES}/{place}/{renamed.get(field, field)}", "", "").pointer


def _variables(config: CleanRLWorkerConfig) -> dict[str, str]:
    given: dict[str, object] = {
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


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _path(config: CleanRLWorkerConfig) -> Path:
    return Path(config.extras.script_path or "").expanduser().absolute()
