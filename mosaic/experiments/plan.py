"""What an experiment will run: every configuration with every seed. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mosaic.config import build
from mosaic.config.flat import fingerprint, flat_settings
from mosaic.config.json_types import JsonValue, object_at
from mosaic.config.model import TrainRunConfig
from mosaic.errors import InvalidConfigError, Problem
from mosaic.statistics.grouping import Asked, group_names
from mosaic.sweep.space import Point, grid, read_space
from mosaic.workers.facts import ArgumentFacts

TAG = "experiment="
MOST_RUNS = 2000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}\Z")
_SEED_AT_END = re.compile(r"seed \d+\Z")
_BAD_EXPERIMENT = "CLI106"


class Identity(NamedTuple):
    """What makes two runs of an experiment the same run."""

    algo: str
    env_id: str
    settings: str
    seed: int


@dataclass(frozen=True)
class ExperimentPlan:
    """Everything that is decided before the first run.

    Attributes:
        name: For people and commands; unique in a home.
        configurations: What is compared; their own seeds do not count.
        seeds: The seeds that each configuration is trained with.
    """

    name: str
    configurations: tuple[TrainRunConfig, ...]
    seeds: tuple[int, ...]

    def runs(self) -> list[TrainRunConfig]:
        """Every run, one seed of all configurations after the other: a first picture comes soon."""
        labels = _labels(self.configurations)
        return [
            build.trial(
                config,
                seed=seed,
                name=f"{self.name} · {label} · seed {seed}"[: build.LONGEST_NAME],
                tags=[TAG + self.name],
                parameters={},
                declares=False,
            )
            for seed in self.seeds
            for config, label in zip(self.configurations, labels, strict=True)
        ]


def make_plan(
    name: str, configurations: Sequence[TrainRunConfig], seeds: Sequence[int]
) -> ExperimentPlan:
    """A plan that can be carried out.

    Raises:
        InvalidConfigError: The name cannot be used, or there are no runs or far too many.
    """
    if not _NAME.match(name):
        raise refusal(
            f"{name!r} cannot name an experiment: use up to 60 letters, digits, dots, dashes and "
            "underscores, a letter or digit first"
        )
    count = len(configurations) * len(seeds)
    if not count:
        raise refusal("an experiment needs at least one configuration and one seed")
    if count > MOST_RUNS:
        raise refusal(f"the experiment has {count:,} runs; at most {MOST_RUNS:,} are submitted")
    if len(set(seeds)) < len(seeds):
        raise refusal(f"a seed is given twice: {', '.join(map(str, seeds))}")
    return ExperimentPlan(name, tuple(configurations), tuple(seeds))


def refusal(message: str) -> InvalidConfigError:
    """An experiment that cannot be carried out."""
    return InvalidConfigError([Problem("", _BAD_EXPERIMENT, message)])


def varied(
    config: TrainRunConfig, points: Iterable[Mapping[str, JsonValue]], *, declares: bool
) -> list[TrainRunConfig]:
    """A configuration with each of several sets of parameters.

    Args:
        config: What is the same for all.
        points: The parameters that differ.
        declares: Whether the algorithm declares its parameters; see `build.Worker`.
    """
    return [
        build.trial(
            config,
            seed=config.worker.seed,
            name=config.run_name,
            tags=(),
            parameters=point,
            declares=declares,
        )
        for point in points
    ]


def grid_points(
    lines: Sequence[str], arguments: Sequence[ArgumentFacts] | None, algo: str
) -> list[Point]:
    """Every combination of what is varied.

    Args:
        lines: `learning_rate=1e-3,3e-4`, one parameter each.
        arguments: The algorithm's arguments as its worker describes them; None takes any name.
        algo: For messages.

    Raises:
        InvalidConfigError: With every problem.
    """
    return grid(read_space(lines, arguments, algo))


def identity(document: Mapping[str, object]) -> Identity:
    """What makes a run the same as another, from its configuration."""
    worker = object_at(document, "metadata", "worker", "config")
    seed = worker.get("seed")
    return Identity(
        str(worker.get("algo") or ""),
        str(worker.get("env_id") or ""),
        fingerprint(flat_settings(document)),
        seed if isinstance(seed, int) else 0,
    )


def with_seeds(
    documents: Sequence[Mapping[str, object]], seeds: Sequence[int]
) -> list[TrainRunConfig]:
    """Each configuration among these runs with each of the seeds that it does not have yet."""
    there = {identity(document) for document in documents}
    firsts: dict[Identity, Mapping[str, object]] = {}
    for document in documents:
        firsts.setdefault(identity(document)._replace(seed=0), document)
    more = []
    for seed in seeds:
        for mark, document in firsts.items():
            if mark._replace(seed=seed) not in there:
                before = build.read_config(document)
                name = _SEED_AT_END.sub(f"seed {seed}", before.run_name)
                more.append(build.clone(before, seed=seed, name=name))
    return more


def _labels(configurations: Sequence[TrainRunConfig]) -> list[str]:
    documents = [config.document() for config in configurations]
    asked = {
        str(place): Asked(
            config.worker.algo or config.metadata.worker.type,
            config.worker.env_id or "",
            flat_settings(document),
        )
        for place, (config, document) in enumerate(zip(configurations, documents, strict=True))
    }
    names = group_names(asked, environments=True)
    return [names[str(place)] for place in range(len(configurations))]
