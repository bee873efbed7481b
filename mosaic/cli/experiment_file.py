"""What an experiment is made from: the flags of `mosaic experiment run`, or a TOML file."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from mosaic.cli.building import TrainOptions, fresh_config, own_flags
from mosaic.config.flags import as_words
from mosaic.config.json_types import JsonValue
from mosaic.config.model import TrainRunConfig
from mosaic.config.suggest import did_you_mean
from mosaic.errors import InvalidConfigError, Problem
from mosaic.experiments.plan import ExperimentPlan, grid_points, make_plan, refusal, varied
from mosaic.workers.algorithms import find_algorithm

# In a file, beside what the experiment itself consists of.
_OPTIONS = (
    "cpus", "gpus", "memory_mb", "max_minutes", "site", "wandb", "tags", "notes", "capture_video",
)  # fmt: skip

T = TypeVar("T")


@dataclass(frozen=True)
class ExperimentSpec:
    """What is asked for, before it is checked against the algorithms.

    Attributes:
        grid: What is varied, as `--param` takes it: `learning_rate=1e-3,3e-4`.
        settings: Words of the algorithm's own flags, the same for all runs.
        seeds: The seeds of each configuration.
    """

    name: str
    algorithms: Sequence[str]
    environments: Sequence[str] = ()
    seeds: Sequence[int] = (1, 2, 3, 4, 5)
    grid: Sequence[str] = ()
    settings: Sequence[str] = ()
    options: TrainOptions = field(default_factory=TrainOptions)
    worker: str = ""
    priority: int = 0


def plan_of(spec: ExperimentSpec) -> ExperimentPlan:
    """The runs of an experiment.

    Raises:
        InvalidConfigError: With every problem.
    """
    if not spec.algorithms:
        raise refusal("an experiment needs an algorithm: --algo ppo")
    configurations: list[TrainRunConfig] = []
    problems: dict[Problem, None] = {}
    for algo in spec.algorithms:
        for env_id in spec.environments or (None,):
            try:
                configurations += _configurations(spec, algo, env_id)
            except InvalidConfigError as error:
                problems.update(dict.fromkeys(error.problems))
    if problems:
        raise InvalidConfigError(list(problems))
    return make_plan(spec.name, configurations, spec.seeds)


def _configurations(spec: ExperimentSpec, algo: str, env_id: str | None) -> list[TrainRunConfig]:
    algorithm = find_algorithm(algo, spec.worker)
    flags = own_flags(spec.settings, algorithm, algo)
    config = fresh_config(algorithm, replace(spec.options, env_id=env_id, name=""), flags)
    if not spec.grid:
        return [config]
    points = grid_points(spec.grid, algorithm.arguments, algo)
    both = sorted(flags.keys() & points[0].keys())
    if both:
        raise refusal(f"{both[0]} is both varied and fixed")
    return varied(config, points, declares=algorithm.facts is not None)


def read_spec(path: Path) -> ExperimentSpec:
    """An experiment from a TOML file; without a name it has the file's.

    Raises:
        InvalidConfigError: It cannot be read, or a key is unknown or has a wrong value.
    """
    try:
        document = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise refusal(f"{path} cannot be read: {error}") from None
    known = {"name", "algorithms", "environments", "seeds", "total_timesteps", "grid", "settings"}
    known |= {"worker", "priority", *_OPTIONS}
    for key in document:
        if key not in known:
            raise refusal(f"{path}: there is no key {key!r}{did_you_mean(key, known)}")
    options = {key: document[key] for key in (*_OPTIONS, "total_timesteps") if key in document}
    return ExperimentSpec(
        name=_typed(path, document, "name", str, path.stem),
        algorithms=_texts(path, document, "algorithms"),
        environments=_texts(path, document, "environments"),
        seeds=_seeds(path, document.get("seeds", 5)),
        grid=[
            f"{name}={','.join(as_words(name, value)[-1] for value in _listed(path, name, values))}"
            for name, values in _table(path, document, "grid").items()
        ],
        settings=_words(_table(path, document, "settings")),
        options=TrainOptions.of(options),
        worker=_typed(path, document, "worker", str, ""),
        priority=_typed(path, document, "priority", int, 0),
    )


def _words(settings: Mapping[str, JsonValue]) -> list[str]:
    return [word for name, value in settings.items() for word in as_words(name, value)]


def _typed(path: Path, document: Mapping[str, object], key: str, kind: type[T], default: T) -> T:
    value = document.get(key, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise refusal(f"{path}: {key} must be a {kind.__name__}, not {value!r}")
    return value


def _texts(path: Path, document: Mapping[str, object], key: str) -> list[str]:
    values: list[object] = _typed(path, document, key, list, [])
    names = [value for value in values if isinstance(value, str) and value]
    if len(names) < len(values):
        raise refusal(f'{path}: {key} must be a list of names, such as ["ppo", "dqn"]')
    return names


def _table(path: Path, document: Mapping[str, object], key: str) -> dict[str, JsonValue]:
    table: dict[str, JsonValue] = _typed(path, document, key, dict, {})
    return table


def _seeds(path: Path, given: object) -> list[int]:
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return list(range(1, given + 1))
    whole = isinstance(given, list) and all(type(one) is int and one >= 0 for one in given)
    if not isinstance(given, list) or not whole or not given:
        raise refusal(f"{path}: seeds must be a number of seeds or a list of them, not {given!r}")
    return list(given)


def _listed(path: Path, name: str, values: JsonValue) -> list[JsonValue]:
    if not isinstance(values, list) or not values:
        raise refusal(f"{path}: grid.{name} must be a list of values, not {values!r}")
    return values
