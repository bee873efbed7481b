"""From what people ask for to the configuration of a run: command line, sweeps and SDK alike."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from mosaic.config import build
from mosaic.config.flags import BAD_VALUE, UNKNOWN_FLAG
from mosaic.config.model import Parameters, TrainRunConfig
from mosaic.config.problems import NOT_JSON
from mosaic.config.suggest import allowed_names, did_you_mean
from mosaic.errors import InvalidConfigError, InvalidRunIdError, Problem, RunNotFoundError
from mosaic.records import RunRecord
from mosaic.workers import parameters
from mosaic.workers.algorithms import Algorithm
from mosaic.workers.facts import AlgorithmFacts


@dataclass(frozen=True)
class TrainOptions:
    """The options that every algorithm has, without its own flags."""

    env_id: str | None = None
    total_timesteps: float | None = None
    seed: int | None = None
    name: str = ""
    tags: Sequence[str] = ()
    notes: str = ""
    cpus: int = 1
    gpus: int = 0
    memory_mb: int | None = None
    max_minutes: float | None = None
    site: str | None = None
    keep: str | None = None
    wandb: bool = False
    capture_video: bool = False
    curriculum: str | None = None
    stop_at: int | None = None
    smoke: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "TrainOptions":
        """From what click has read; options of the command itself are left out."""
        known = {item.name for item in fields(cls)}
        return cls(**{name: value for name, value in given.items() if name in known})

    @property
    def steps(self) -> int | None:
        """The steps to train for, where they were given."""
        return None if self.total_timesteps is None else int(self.total_timesteps)

    @property
    def schedule(self) -> Parameters:
        """Where to stop in a longer schedule."""
        return {"stop_at": self.stop_at} if self.stop_at else {}


def fresh_config(algorithm: Algorithm, options: TrainOptions, flags: Parameters) -> TrainRunConfig:
    """The configuration of a new run.

    Raises:
        InvalidConfigError: With every problem.
    """
    facts = algorithm.facts or {}
    declared = {item["name"]: item["default"] for item in facts.get("arguments", ())}
    smoke = facts.get("smoke", {}) if options.smoke else {}
    # What was typed, then the smoke test's length, then the script's own default.
    steps = (
        options.steps
        if options.steps is not None
        else smoke.get("total_timesteps") or declared.get("total_timesteps")
    )
    given: Parameters = {**flags, **options.schedule}
    if options.smoke:
        given["smoke"] = True
    worker, extras = algorithm.worker, _extras(options, facts)
    default_env = smoke.get("env_id") or facts.get("default_env") or declared.get("env_id") or ""
    # A curriculum ends in an environment of its own; the algorithm's default has no part in it.
    env_id = options.env_id or _last_stage(extras, facts) or str(default_env)
    return build.train(
        build.Worker(worker.worker_type, worker.module, declares=algorithm.facts is not None),
        algorithm.name,
        env_id=env_id,
        seed=1 if options.seed is None else options.seed,
        total_timesteps=steps if isinstance(steps, int) and steps else None,
        parameters=given,
        extras=extras,
        wishes=_wishes(options, facts),
    )


def file_config(
    algorithm: Algorithm, options: TrainOptions, flags: Parameters, checkpoint: Path
) -> TrainRunConfig:
    """The configuration of a run that continues from a checkpoint file of one's own.

    Raises:
        InvalidConfigError: With every problem.
    """
    facts = algorithm.facts or {}
    return build.resume_file(
        build.Worker(algorithm.worker.worker_type, algorithm.worker.module),
        # The worker's folder is another than the user's.
        str(checkpoint.expanduser().absolute()),
        algo=algorithm.name,
        env_id=options.env_id,
        seed=options.seed,
        total_timesteps=options.steps,
        parameters={**flags, **options.schedule},
        notes=options.notes,
        wishes=_wishes(options, facts),
    )


def _wishes(options: TrainOptions, facts: AlgorithmFacts) -> build.Wishes:
    return build.Wishes(
        name=options.name,
        tags=options.tags,
        cpus=options.cpus,
        gpus=options.gpus,
        memory_mb=options.memory_mb,
        max_minutes=options.max_minutes,
        site=options.site,
        keep_checkpoints=options.keep,
        wandb=options.wandb,
        environment=facts.get("environment", {}),
    )


def _extras(options: TrainOptions, facts: AlgorithmFacts) -> Parameters:
    extras: Parameters = {"notes": options.notes}
    if options.capture_video:
        extras["capture_video"] = True
    if options.curriculum:
        extras["curriculum_schedule"] = _curriculum(options.curriculum, facts.get("curricula", {}))
    if options.wandb:
        extras["track_wandb"] = True
        # A key on the command line would show in the process list; the environment does not.
        if os.environ.get("WANDB_API_KEY"):
            extras["wandb_api_key"] = os.environ["WANDB_API_KEY"]
    return extras


def _last_stage(extras: Parameters, facts: AlgorithmFacts) -> str:
    """The environment in which a curriculum ends; empty without one."""
    stages = extras.get("curriculum_schedule")
    if isinstance(stages, str):
        presets = facts.get("curricula", {})
        return presets[stages][-1] if stages in presets else ""
    last = stages[-1] if isinstance(stages, list) and stages else None
    return str(last.get("env_id", "")) if isinstance(last, dict) else ""


def _curriculum(given: str, presets: Mapping[str, Sequence[str]]) -> JsonValue:
    """The stages in a file, or the preset's name for the worker to look up."""
    path = Path(given).expanduser()
    if given in presets or not (path.exists() or path.suffix or "/" in given):
        return given
    try:
        stages: JsonValue = json.loads(path.read_text())
    except OSError as error:
        hint = f"; presets: {allowed_names(presets)}" if presets else ""
        raise _bad_curriculum(f"cannot read {path}: {error.strerror}{hint}") from None
    except ValueError as error:
        raise _bad_curriculum(f"{path} is not valid JSON: {error}") from None
    return stages


def _bad_curriculum(text: str) -> InvalidConfigError:
    return InvalidConfigError([Problem("--curriculum", NOT_JSON, text)])


def names_a_run(algorithm: Algorithm, given: Mapping[str, JsonValue]) -> bool:
    """Whether an argument may name a run, which only a daemon can find."""
    return bool(_runs_named(algorithm, given))


def _runs_named(algorithm: Algorithm, given: Mapping[str, JsonValue]) -> dict[str, str]:
    """The arguments that may name a run, with what they say; a file or folder is no such name."""
    found = {}
    for item in algorithm.arguments or ():
        value = given.get(item["name"])
        if item.get("run") and isinstance(value, str) and not Path(value).expanduser().exists():
            found[item["name"]] = value
    return found


def with_run_directories(
    algorithm: Algorithm, given: Mapping[str, JsonValue], find: Callable[[str], RunRecord]
) -> Parameters:
    """Arguments of an algorithm in which a run's name has become the run's directory.

    Args:
        algorithm: Says which of its arguments may name a run.
        given: Its arguments.
        find: The run of an id, a unique prefix or `last`.
    """
    made = dict(given)
    for name, value in _runs_named(algorithm, given).items():
        # What is neither a file nor a run is refused by the worker, which knows what it wants.
        with suppress(RunNotFoundError, InvalidRunIdError):
            made[name] = find(value).run_dir
    return made


def checked_parameters(
    algorithm: Algorithm, given: Mapping[str, JsonValue]
) -> tuple[Parameters, list[Problem]]:
    """Arguments of an algorithm by name, and every one that is unknown or does not fit."""
    declared = {item["name"]: item for item in algorithm.arguments or ()}
    problems: list[Problem] = []
    for name, value in given.items():
        if algorithm.arguments is not None and name not in declared:
            hint = did_you_mean(name, declared)
            text = (
                f"{algorithm.name or algorithm.worker.worker_type} has no argument {name!r}{hint}"
            )
            problems.append(Problem(name, UNKNOWN_FLAG, text))
        elif name in declared:
            sentence = parameters.misfit(declared[name], value)
            if sentence:
                problems.append(Problem(name, BAD_VALUE, sentence))
    return parameters.absolute_paths(declared, given), problems
