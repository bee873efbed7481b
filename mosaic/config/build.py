"""Configurations of every kind of run, built in one place.

The command line, the window's forms, sweeps and `mosaic check-worker` all call these builders, so
a run is described the same way wherever it comes from. Each returns a checked `TrainRunConfig`;
problems are reported at once, with the pointers that the daemon would use.

What callers could decide differently is decided here:

- A GPU that is reserved is also used: the daemon sets `cuda` from `resources.gpus`, so no builder
  does.
- A shell script is named after its file without the ending, its algorithm is `script`, and its
  total is what its header says.
- A game writes no scalars, so TensorBoard is off.
- What starts from a checkpoint or a policy (`resume`, `evaluate`, `take_over`) is written in
  `mosaic.config.build_saved`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from mosaic.config.assembling import LONGEST_NAME, assembled, changed, parameters_of
from mosaic.config.build_saved import (
    BEST_POLICY,
    NOTHING_SAVED,
    OTHER_ALGORITHM,
    evaluate,
    resume,
    resume_file,
    saved_by,
    take_over,
)
from mosaic.config.model import Mode, Parameters, TrainingPhase, TrainRunConfig
from mosaic.config.pipeline import PipelineHeader, read_header
from mosaic.config.secrets import extract
from mosaic.config.validation import WorkerFinder, validate_train_run_config
from mosaic.config.wishes import Wishes, Worker

__all__ = [
    "BEST_POLICY",
    "LONGEST_NAME",
    "NOTHING_SAVED",
    "OTHER_ALGORITHM",
    "Wishes",
    "Worker",
    "any_worker",
    "clone",
    "evaluate",
    "phases",
    "play",
    "read_config",
    "resume",
    "resume_file",
    "retry",
    "saved_by",
    "script",
    "take_over",
    "train",
    "trial",
    "with_parameters",
    "without_secrets",
]


def read_config(
    document: str | bytes | Mapping[str, object], worker_of: WorkerFinder | None = None
) -> TrainRunConfig:
    """A configuration that was stored, by this version or an earlier one, or written by hand.

    Args:
        document: JSON text or a parsed document.
        worker_of: Names the worker of an algorithm, for a flat document that names none.

    Raises:
        InvalidConfigError: With every problem.
    """
    return validate_train_run_config(document, None, worker_of)


def train(
    worker: Worker,
    algo: str,
    *,
    env_id: str = "",
    seed: int = 1,
    total_timesteps: int | None = None,
    parameters: Mapping[str, JsonValue] | None = None,
    extras: Mapping[str, JsonValue] | None = None,
    ids: Mapping[str, str] | None = None,
    wishes: Wishes | None = None,
) -> TrainRunConfig:
    """Train an algorithm from the beginning.

    Args:
        worker: Who has the algorithm.
        algo: Its name.
        env_id: The environment.
        seed: Random seed.
        total_timesteps: How long to train; the worker's own default when left out.
        parameters: The algorithm's own arguments.
        extras: Settings that every worker understands; see `mosaic.config.model.Extras`.
        ids: `worker_id` and `agent_id`, where the user has names of their own.
        wishes: Name, resources, limits and artifacts.

    Raises:
        InvalidConfigError: With every problem.
    """
    given: Parameters = dict(extras or {})
    if worker.declares:
        given["algo_params"] = dict(parameters or {})
    else:
        given.update(parameters or {})
    fields: Parameters = {
        "run_id": "${RUN_ID}",
        "algo": algo,
        "env_id": env_id,
        "seed": seed,
        "total_timesteps": total_timesteps,
        "extras": given,
        **{name: text for name, text in (ids or {}).items() if text},
    }
    return assembled(worker, fields, wishes or Wishes())


def script(
    worker: str,
    file: Path,
    *,
    seed: int = 1,
    header: PipelineHeader | None = None,
    wishes: Wishes | None = None,
) -> TrainRunConfig:
    """Run a shell script of several training phases as one run.

    Args:
        worker: Who runs it.
        file: The script.
        seed: Handed to the script.
        header: What the script says about itself, where it has been read already.
        wishes: Name, resources and limits.
    """
    mode: Mode = "script"
    fields: Parameters = {
        "algo": mode,
        "seed": seed,
        "extras": {"mode": mode, "script_path": str(file.expanduser().absolute())},
    }
    if header is None:
        try:
            header = read_header(file.expanduser())
        except ValueError:
            # The worker refuses such a script with a pointer; here only the total is missing.
            header = PipelineHeader()
    if header.total_timesteps:
        fields["total_timesteps"] = header.total_timesteps
    return assembled(Worker(worker), fields, wishes or Wishes(), default_name=file.stem)


def phases(
    worker: str,
    trained: Sequence[TrainingPhase],
    *,
    seed: int = 1,
    wishes: Wishes | None = None,
) -> TrainRunConfig:
    """Train several phases one after the other as one run; the worker makes the script of them.

    Args:
        worker: Who runs them.
        trained: The phases, in order.
        seed: Of every phase.
        wishes: Name, resources and limits.

    Raises:
        InvalidConfigError: With every problem.
    """
    mode: Mode = "script"
    made: list[JsonValue] = [phase.model_dump(exclude_unset=True) for phase in trained]
    fields: Parameters = {
        "algo": mode,
        "seed": seed,
        "total_timesteps": sum(phase.steps for phase in trained) or None,
        "extras": {"mode": mode, "script_phases": made},
    }
    default = " → ".join(phase.name for phase in trained)[:LONGEST_NAME]
    return assembled(Worker(worker), fields, wishes or Wishes(), default_name=default)


def play(
    worker: str,
    env_id: str,
    *,
    seed: int = 1,
    script: str = "",
    fps: float | None = None,
    env_kwargs: Mapping[str, JsonValue] | None = None,
) -> TrainRunConfig:
    """Let a person play.

    Args:
        worker: Who holds the environment.
        env_id: Any Gymnasium environment that draws pictures.
        seed: The seed of the first episode; each further one adds 1.
        script: The text of a key script; empty for a person at the keys.
        fps: Steps per second; a script runs as fast as it can without it.
        env_kwargs: Arguments for the environment.
    """
    extras: Parameters = {}
    if script:
        extras["script"] = script
    if fps:
        extras["fps"] = float(fps)
    if env_kwargs:
        extras["env_kwargs"] = dict(env_kwargs)
    fields: Parameters = {"algo": "play", "env_id": env_id, "seed": seed, "extras": extras}
    return assembled(Worker(worker), fields, Wishes(name=f"play {env_id}", tensorboard=False))


def any_worker(worker: Worker, fields: Mapping[str, JsonValue]) -> TrainRunConfig:
    """A run of a worker by its own fields, as its schema has them."""
    return assembled(worker, dict(fields), Wishes())


def clone(
    before: TrainRunConfig, *, seed: int | None = None, name: str = "", site: str | None = None
) -> TrainRunConfig:
    """The same run once more."""
    return changed(before, {"seed": seed}, {}, name=name, site=site)


def with_parameters(before: TrainRunConfig, parameters: Mapping[str, JsonValue]) -> TrainRunConfig:
    """The same run with other arguments of its algorithm."""
    return changed(before, {}, {"algo_params": {**parameters_of(before), **parameters}})


def trial(
    before: TrainRunConfig,
    *,
    seed: int,
    name: str,
    tags: Sequence[str],
    parameters: Mapping[str, JsonValue],
    declares: bool,
) -> TrainRunConfig:
    """One run of a sweep: another seed, other parameters, tags in front of its own."""
    if declares:
        extras: Parameters = {"algo_params": {**parameters_of(before), **parameters}}
    else:
        extras = dict(parameters)
    return changed(before, {"seed": seed}, extras, name=name, tags=[*tags, *before.metadata.tags])


def retry(before: TrainRunConfig, tags: Sequence[str]) -> TrainRunConfig:
    """The same run once more, under other tags."""
    return changed(before, {}, {}, tags=tags)


def without_secrets(config: TrainRunConfig) -> TrainRunConfig:
    """A configuration that names its secrets by reference, for keeping outside the daemon."""
    return read_config(extract(config.document(), {}))
