"""Creating a run: validation, identity, secrets out, files written, first event ready."""

import asyncio
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mosaic.config.json_types import JsonValue, object_at
from mosaic.config.paths import Home
from mosaic.config.problems import DENIED_VARIABLE, OUT_OF_RANGE, pointer
from mosaic.config.secrets import SecretStore, extract, referenced
from mosaic.config.sites import LOCAL
from mosaic.config.values import substitute
from mosaic.errors import InvalidConfigError, Problem
from mosaic.runs.directory import RunDirectory
from mosaic.runs.ids import is_run_id, new_run_id
from mosaic.system import atomic
from mosaic.trainer.core.events import Request, Submitted
from mosaic.trainer.core.folding import evolve
from mosaic.trainer.core.scheduler import Machine
from mosaic.trainer.core.states import Event, Run
from mosaic.trainer.launch import hardware
from mosaic.trainer.loop.housekeeping import remove_files
from mosaic.trainer.storage import history
from mosaic.workers import fitting
from mosaic.workers.algorithms import worker_of
from mosaic.workers.asking import WorkerChecks
from mosaic.workers.capabilities import WorkerCapabilities
from mosaic.workers.discovery import DiscoveredWorker, own_variables

if TYPE_CHECKING:
    from mosaic.config.model import TrainRunConfig, WorkerRunConfig

_STAGING = ".new-"


@dataclass(frozen=True)
class Submission:
    """What a client sent."""

    config_json: str
    idempotency_key: str = ""
    priority: int = 0
    cold: bool = False
    parent_run_id: str = ""
    parent_step: int | None = None


@dataclass(frozen=True)
class Capacity:
    """What this machine could ever give a run."""

    cpus: int
    gpus: int
    memory_mb: int

    @classmethod
    def of(cls, machine: Machine) -> "Capacity":
        """The capacity of a machine, in use or not."""
        return cls(len(machine.cpus), len(machine.gpus), machine.memory_mb)


@dataclass(frozen=True)
class CreatedRun:
    """A run that has just been created.

    Attributes:
        run: The row it begins with.
        environment: The variables its worker gets, secrets by reference.
    """

    run: Run
    environment: dict[str, str]


async def validate(
    config_json: str,
    workers: dict[str, DiscoveredWorker],
    checks: WorkerChecks,
    capacity: Capacity,
    site: str = LOCAL,
) -> "TrainRunConfig":
    """Check a submission against the model, the worker and the machine.

    Raises:
        InvalidConfigError: With every problem.
        StorageError: The worker cannot be asked now.
    """
    # Here: pydantic was a quarter of each start, and nothing before a submission needs it.
    from mosaic.config.validation import examine

    usable = {name: found.capabilities for name, found in workers.items() if found.capabilities}
    # On a thread: a document of a megabyte takes a while.
    config, problems = await asyncio.to_thread(
        examine, config_json, usable, lambda algo: worker_of(algo, workers)
    )
    worker = usable.get(config.metadata.worker.type) if config else None
    if config is None or worker is None:
        raise InvalidConfigError(problems)
    against = await checks.objections(worker, config)
    problems += against.own
    # The rest is reported once the configuration makes sense: it may be the same mistake.
    problems = problems or [
        *_variable_problems(config, workers),
        *against.declared,
        # What a cluster has, its engine knows.
        *(_capacity_problems(config, worker, capacity) if (config.site or site) == LOCAL else ()),
    ]
    if problems:
        raise InvalidConfigError(list(dict.fromkeys(problems)))
    return config


def names_run(idempotency_key: str) -> bool:
    """Whether a key is a ULID, which becomes the run's id; any other only finds the run again."""
    return is_run_id(idempotency_key)


def create_run(
    home: Home,
    submission: Submission,
    config: "TrainRunConfig",
    workers: dict[str, DiscoveredWorker],
    site: str = LOCAL,
) -> CreatedRun:
    """Create a run on disk, whole or not at all.

    Everything is written into a folder of another name, which is renamed at the end: a folder
    with the name of a run always holds a run.
    """
    key = submission.idempotency_key
    run_id = key if names_run(key) else new_run_id()
    event = Event(1, time.time(), time.monotonic(), first_event(submission, config, workers, site))
    run = evolve(Run(run_id), event)
    unseen = staging(home, run_id)
    try:
        unseen.create()
        document = _write_config(home, run_id, unseen, submission, config)
        history.append(unseen.path, [event])
        os.rename(unseen.path, home.run_dir(run_id))
    except BaseException:
        remove_files(home, run_id, unseen.path)
        raise
    # Otherwise a power cut could take back a rename of which the client was already told.
    atomic.sync_folder(home.runs)
    variables = object_at(document, "environment")
    return CreatedRun(run, {name: str(value) for name, value in variables.items()})


def staging(home: Home, run_id: str) -> RunDirectory:
    """Where a run is put together, out of sight; the next daemon removes what is left there."""
    return RunDirectory(home.runs / f"{_STAGING}{run_id}")


def remove_half_made(home: Home) -> None:
    """Remove what a daemon that was killed while taking a run in has left."""
    for path in home.runs.glob(f"{_STAGING}*"):
        remove_files(home, path.name.removeprefix(_STAGING), path)


def _write_config(
    home: Home,
    run_id: str,
    directory: RunDirectory,
    submission: Submission,
    config: "TrainRunConfig",
) -> dict[str, JsonValue]:
    """Write the configuration where people, clients and the worker look for it.

    `config-<ULID>.json` and the run's own `config.json` are the configuration as it was checked,
    with its placeholders, so that a clone of the run gets an id and folders of its own.
    `worker-<ULID>.json` is what the worker reads, with the placeholders filled in. Secrets are
    in their store alone.

    Returns:
        The stored document.
    """
    secrets: dict[str, str] = {}
    document = extract(config.document(), secrets)
    inherited = referenced(document) - set(secrets)
    store = SecretStore(home.secrets)
    if inherited and submission.parent_run_id:
        kept = store.get(submission.parent_run_id)
        secrets.update({name: kept[name] for name in inherited if name in kept})
    # The secrets come first: a document must never refer to one that is not there.
    store.put(run_id, secrets)
    run_dir = home.run_dir(run_id)
    names = {
        "RUN_ID": run_id,
        "RUN_DIR": str(run_dir),
        "VAR_TENSORBOARD_DIR": str(run_dir / "tensorboard"),
    }
    fields = config.worker_document(object_at(document, "metadata", "worker", "config"), run_id)
    atomic.write_json(home.configs / f"worker-{run_id}.json", substitute(fields, names))
    stored = home.configs / f"config-{run_id}.json"
    atomic.write_json(stored, document)
    _give_both_names(stored, directory.config, document)
    return document


def _give_both_names(stored: Path, beside_run: Path, document: Mapping[str, JsonValue]) -> None:
    """Make the run's own `config.json` the same file as the stored one.

    A link is written at once and the two can never differ. Some file systems have none; there
    the same document is written a second time.
    """
    try:
        os.link(stored, beside_run)
    except OSError:
        atomic.write_json(beside_run, document)


def first_event(
    submission: Submission,
    config: "TrainRunConfig",
    workers: dict[str, DiscoveredWorker],
    site: str,
) -> Submitted:
    """What the run's log begins with."""
    worker, resources = config.metadata.worker, config.resources
    known = workers[worker.type].capabilities
    assert known is not None, "validation has refused workers that cannot be used"
    minutes = config.limits.max_wallclock_minutes
    reserved = fitting.reservation(
        known,
        resources.gpus.requested,
        resources.gpus.mandatory,
        resources.memory_mb,
        hardware.memory_total_mb(),
    )
    request = Request(resources.cpus.requested, **asdict(reserved))
    fallback = "-".join(filter(None, (worker.type, worker.config.algo, worker.config.env_id)))
    return Submitted(
        run_name=config.run_name or fallback,
        worker=worker.type,
        module=worker.module or known.module,
        algo=worker.config.algo,
        env_id=worker.config.env_id,
        seed=worker.config.seed,
        mode=worker.config.extras.mode,
        total_timesteps=worker.config.total_timesteps or 0,
        stop_at=_stop_at(worker.config),
        priority=submission.priority,
        parent_run_id=submission.parent_run_id,
        parent_step=submission.parent_step,
        idempotency_key=submission.idempotency_key,
        cold=submission.cold,
        request=request,
        wallclock_s=minutes * 60 if minutes else None,
        site=config.site or site,
        tags=tuple(config.metadata.tags),
        notes=worker.config.extras.notes,
    )


def _stop_at(config: "WorkerRunConfig") -> int | None:
    """The step at which a run is to stop, from its arguments or the worker's extras."""
    extras = config.extras.model_dump(exclude_unset=True)
    asked = config.extras.algo_params.get("stop_at", extras.get("stop_at"))
    return asked if isinstance(asked, int) and not isinstance(asked, bool) else None


def _variable_problems(
    config: "TrainRunConfig", workers: dict[str, DiscoveredWorker]
) -> Iterator[Problem]:
    for name in fitting.denied_variables(config.environment, own_variables(workers.values())):
        text = f"{name} may not be set by a run: a worker keeps it for its own processes"
        yield Problem(pointer(("environment", name)), DENIED_VARIABLE, text)


def _capacity_problems(
    config: "TrainRunConfig", worker: WorkerCapabilities, capacity: Capacity
) -> list[Problem]:
    problems = []
    if worker.requires_gpu and not capacity.gpus:
        text = f"{worker.display_name or worker.worker_type} needs a GPU, this machine has none"
        problems.append(Problem("/resources/gpus/requested", OUT_OF_RANGE, text))
    cpus, gpus = config.resources.cpus.requested, config.resources.gpus
    if cpus > capacity.cpus:
        text = f"{cpus} CPU slots were asked for, this machine has {capacity.cpus}"
        problems.append(Problem("/resources/cpus/requested", OUT_OF_RANGE, text))
    if gpus.mandatory > capacity.gpus:
        text = (
            f"{gpus.mandatory} GPUs are mandatory, this machine has {capacity.gpus}; "
            "set it to 0 to train on the CPU"
        )
        problems.append(Problem("/resources/gpus/mandatory", OUT_OF_RANGE, text))
    memory = config.resources.memory_mb or 0
    if memory > capacity.memory_mb:
        text = f"{memory:,} MB were asked for, this machine has {capacity.memory_mb:,} MB"
        problems.append(Problem("/resources/memory_mb", OUT_OF_RANGE, text))
    return problems
