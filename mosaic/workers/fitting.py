"""What a worker can handle, decided from what it declares about itself. Pure.

Forms offer what fits, the daemon accepts what fits, and both ask here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from mosaic.workers.capabilities import WorkerCapabilities
from mosaic.workers.facts import AlgorithmFacts, EnvironmentFacts

# Families that Gymnasium itself brings; a worker that names `gymnasium` has them all.
_GYMNASIUM = frozenset({"classic_control", "box2d", "toy_text"})
_UNKNOWN = frozenset({"", "other"})


@dataclass(frozen=True)
class Reservation:
    """What a run sets aside on the machine."""

    gpus: int
    gpus_mandatory: int
    memory_mb: int


def misfit(
    worker: WorkerCapabilities,
    environment: EnvironmentFacts,
    algorithm: AlgorithmFacts | None = None,
) -> str:
    """Why a worker, or one of its algorithms, cannot handle an environment; empty when it can.

    An algorithm knows its spaces better than the worker that has many of them, so its own word
    counts more.
    """
    said: AlgorithmFacts = algorithm or {}
    name = worker.display_name or worker.worker_type
    where = environment.get("id", "the environment")
    families, family = worker.env_families, environment.get("family", "")
    if families and family not in _UNKNOWN and not _has_family(families, family):
        return f"{name} has no {family} environments such as {where}; it has {_list(families)}"
    for what, allowed, given in (
        ("actions", said.get("actions") or worker.action_spaces, environment.get("actions", "")),
        (
            "observations",
            said.get("observations") or worker.observation_spaces,
            environment.get("observations", ""),
        ),
    ):
        if allowed and given not in _UNKNOWN and given not in allowed:
            return f"{where} has {given} {what}, but {name} handles {_list(allowed)} ones here"
    paradigm = environment.get("paradigm", "sequential")
    if paradigm not in worker.supported_paradigms:
        turns = _list(worker.supported_paradigms)
        return f"the agents of {where} act {paradigm}, those of {name} {turns}"
    most, agents = said.get("max_agents", worker.max_agents), environment.get("agents", 1)
    if agents > most:
        return f"{where} has {agents} agents, {name} controls at most {most}"
    return ""


def offered(
    worker: WorkerCapabilities,
    environments: Iterable[EnvironmentFacts],
    algorithm: AlgorithmFacts | None = None,
) -> list[EnvironmentFacts]:
    """The environments that fit."""
    return [item for item in environments if not misfit(worker, item, algorithm)]


def modules_for(worker: WorkerCapabilities, algorithm: str) -> tuple[str, ...]:
    """What a warm process has imported that runs of an algorithm are forked from."""
    heavy = any(fnmatchcase(algorithm, pattern) for pattern in worker.heavy_algorithms)
    return (*worker.warm_modules, *(worker.heavy_modules if heavy else ()))


def reservation(
    worker: WorkerCapabilities,
    gpus: int = 0,
    gpus_mandatory: int = 0,
    memory_mb: int | None = None,
    machine_memory_mb: int = 0,
) -> Reservation:
    """What a run reserves: what it asks for, and else what its worker says it needs.

    Args:
        worker: Who runs it.
        gpus: GPUs that are asked for.
        gpus_mandatory: GPUs without which it must not start.
        memory_mb: Memory that is asked for; None leaves it to the worker.
        machine_memory_mb: What the machine has. An estimate is no reason to refuse a run that
            may well fit, so it never exceeds this.
    """
    least = 1 if worker.requires_gpu else 0
    if memory_mb is None:
        memory_mb = min(worker.estimated_memory_mb, machine_memory_mb)
    return Reservation(max(gpus, least), max(gpus_mandatory, least), memory_mb)


def denied_variables(environment: Mapping[str, str], reserved: Iterable[str]) -> list[str]:
    """The variables of a run's own environment that a worker keeps for itself."""
    return sorted(set(environment) & set(reserved))


def _has_family(families: Sequence[str], family: str) -> bool:
    return family in families or ("gymnasium" in families and family in _GYMNASIUM)


def _list(names: Sequence[str]) -> str:
    return " or ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else "".join(names)
