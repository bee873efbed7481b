"""Everything that can be known to be wrong before a run starts, all at once."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from cleanrl_worker import bundles, catalog, foresight
from cleanrl_worker.config import CleanRLWorkerConfig, problem
from cleanrl_worker.kit.args import DeviceArgs
from cleanrl_worker.modes import interactive, mode_of
from cleanrl_worker.ondevice import registry
from cleanrl_worker.ondevice.sweeping import sweep_problem
from cleanrl_worker.resolution import (
    HOME_VARIABLE,
    Script,
    UnknownAlgorithmError,
    resolve,
    searching,
)
from cleanrl_worker.running.schema import Argument, Declaration, ScriptSchema
from mosaic.config.json_types import JsonValue
from mosaic.config.model import TrainRunConfig
from mosaic.curves.members import VMAP_SWEEP, read_points
from mosaic.workers import Problem, did_you_mean, parameters

UNKNOWN_ALGORITHM, UNKNOWN_ENVIRONMENT = "CFG106", "CFG107"
UNKNOWN_PARAMETER, BAD_PARAMETER = "CFG113", "CFG114"
SPACES_DO_NOT_FIT = "CFG115"

# Families that bring their own ids; their scripts check these themselves.
_OWN_IDS = frozenset({"envpool", "procgen", "pettingzoo"})
# A foreign script that imports one of these makes its environments with it.
_OWN_MAKERS = frozenset({"envpool", "procgen", "pettingzoo", "supersuit"})
# Both the worker and the script have these; they are set through the worker.
_THE_WORKERS_OWN = frozenset({"run_dir", "resume"})


def validate_config(config: TrainRunConfig) -> list[Problem]:
    """The daemon's hook: check what the platform's own model cannot."""
    own = CleanRLWorkerConfig.of(config.worker)
    if own.mode == "interactive":
        return [interactive.refusal()]
    with searching(config.environment.get(HOME_VARIABLE, "")):
        return list(find_problems(own))


def find_problems(
    config: CleanRLWorkerConfig, run_dir: Path | None = None, *, thorough: bool = False
) -> Iterator[Problem]:
    """Every problem of a worker's config.

    Args:
        config: What is asked.
        run_dir: The run's directory, where it is known.
        thorough: Whether to take the seconds that reading whole checkpoints and building
            environments takes.
    """
    mode = mode_of(config)
    config = mode.complete(config, run_dir)
    yield from mode.problems(config, run_dir, thorough=thorough)
    if config.mode == "script":
        return
    script: Script | None = None
    if config.algo or config.mode in ("train", "resume_training"):
        try:
            script = resolve(config.algo)
        except UnknownAlgorithmError as error:
            yield problem("algo", UNKNOWN_ALGORITHM, str(error))
    if script is not None and config.mode in ("train", "resume_training"):
        unfit = [
            *_parameter_problems(config, script.schema),
            *_sweep_problems(config, script.schema),
        ]
        yield from unfit
        # Values that do not fit by themselves make no sense together either.
        if not unfit:
            yield from foresight.problems(config, script)
    yield from bundles.problems(config)
    if config.env_id or config.mode == "train":
        yield from _environment_problems(config, script)


def _parameter_problems(config: CleanRLWorkerConfig, schema: ScriptSchema) -> Iterator[Problem]:
    for name, value in config.parameters.items():
        inside = name in config.extras.algo_params
        field = f"extras/algo_params/{name}" if inside else f"extras/{name}"
        argument = schema.arguments.get(name)
        if name in _THE_WORKERS_OWN:
            text = f"{name} is set by the worker: give --{name.replace('_', '-')} to it instead"
            yield problem(field, BAD_PARAMETER, text)
        elif argument is None:
            text = f"{config.algo} has no argument {name!r}{did_you_mean(name, schema.arguments)}"
            yield problem(field, UNKNOWN_PARAMETER, text)
        else:
            sentence = argument_problem(argument, value)
            if sentence:
                yield problem(field, BAD_PARAMETER, sentence)


def _sweep_problems(config: CleanRLWorkerConfig, schema: ScriptSchema) -> Iterator[Problem]:
    """What is wrong with settings that are to be trained side by side."""
    text = config.parameters.get(VMAP_SWEEP)
    if not schema.algorithm.get("on_device") or not isinstance(text, str) or not text:
        return
    shared = {field.name for field in fields(DeviceArgs)}
    able = [
        name
        for name, argument in schema.arguments.items()
        if argument.type == "float" and name not in shared
    ]
    field = f"extras/algo_params/{VMAP_SWEEP}"
    if sentence := sweep_problem(text, able):
        yield problem(field, BAD_PARAMETER, sentence)
        return
    values = {(name, value) for point in read_points(text) for name, value in point.items()}
    for name, value in sorted(values):
        if sentence := argument_problem(schema.arguments[name], value):
            yield problem(field, BAD_PARAMETER, sentence)


def argument_problem(argument: Argument, value: JsonValue) -> str:
    """Why a value does not fit an argument; empty when it does."""
    return parameters.misfit(catalog.argument_facts(argument), value)


def _environment_problems(config: CleanRLWorkerConfig, script: Script | None) -> Iterator[Problem]:
    algorithm = script.schema.algorithm if script else {}
    if _OWN_IDS & set(algorithm.get("requires", ())):
        return
    if script is not None and not script.bundled and _OWN_MAKERS & script.schema.imports:
        return
    if not config.env_id:
        yield problem("env_id", UNKNOWN_ENVIRONMENT, "'env_id' is required: what to train in")
        return
    if ":" in config.env_id:
        # `module:Id-v0` is the user's own; only making it tells.
        return
    if algorithm.get("on_device") and (sentence := registry.problem(config.env_id)):
        # What a bundle has is not missing: the run will use its interpreter.
        needed = registry.needed_set(config.env_id)
        if not needed or not bundles.find_bundle([needed]):
            yield problem("env_id", UNKNOWN_ENVIRONMENT, sentence)
        return
    known = {item["id"]: item for item in catalog.environments()}
    if algorithm.get("on_device") and config.env_id not in known:
        # It exists in JAX only, where nothing but building it tells its spaces.
        return
    python = bundles.interpreter(bundles.wanted_sets(config))
    if config.env_id not in known and python != sys.executable:
        known = {item["id"]: item for item in catalog.environments(python)}
    entry = known.get(config.env_id) or _other_version(config.env_id, known)
    if entry is None:
        if python == sys.executable and bundles.lacking(
            [bundles.set_of_environment(config.env_id)]
        ):
            # That its set is missing has been told.
            return
        text = f"there is no environment {config.env_id!r}{did_you_mean(config.env_id, known)}"
        yield problem("env_id", UNKNOWN_ENVIRONMENT, text)
    elif script is not None and algorithm:
        sentence = _space_problem(script.name, algorithm, entry)
        if sentence:
            yield problem("env_id", SPACES_DO_NOT_FIT, sentence)


def _other_version(env_id: str, known: dict[str, dict[str, str]]) -> dict[str, str] | None:
    """An older version of a known environment: Gymnasium itself says whether it still exists."""
    match = re.match(r"(.+)-v(\d+)$", env_id)
    if not match:
        return None
    for other in known.values():
        newest = re.match(r"(.+)-v(\d+)$", other["id"])
        if newest and newest[1] == match[1] and int(match[2]) < int(newest[2]):
            return other if other["family"] in ("classic_control", "mujoco") else None
    return None


def _space_problem(name: str, algorithm: Declaration, entry: dict[str, str]) -> str:
    env_id, actions, observations = entry["id"], entry["actions"], entry["observations"]
    if actions not in algorithm["actions"]:
        return (
            f"{name} acts on {' or '.join(algorithm['actions'])} actions, but {env_id} has "
            f"{actions} ones; try {_alternative(actions)}, or {algorithm['default_env']}"
        )
    if observations not in (*algorithm["observations"], "other"):
        return (
            f"{name} learns from {' or '.join(algorithm['observations'])} observations, but "
            f"{env_id} gives {observations} ones; try {algorithm['default_env']}"
        )
    return ""


def _alternative(actions: str) -> str:
    return "sac_continuous_action" if actions == "continuous" else "ppo"
