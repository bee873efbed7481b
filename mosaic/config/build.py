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
- Evaluating or continuing a run that has saved nothing to start from is refused before anything
  is submitted, unless a file is named.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from mosaic.config.model import Mode, Parameters, TrainingPhase, TrainRunConfig
from mosaic.config.pipeline import PipelineHeader, read_header
from mosaic.config.secrets import extract
from mosaic.config.validation import WorkerFinder, validate_train_run_config
from mosaic.config.wishes import Wishes, Worker
from mosaic.errors import InvalidConfigError, Problem

if TYPE_CHECKING:
    from mosaic.records import RunRecord

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
    "script",
    "train",
    "trial",
    "with_parameters",
    "without_secrets",
]

OTHER_ALGORITHM, NOTHING_SAVED = "CFG120", "CFG121"
# As long as the model allows; the names that are made here are cut to it.
LONGEST_NAME = 200
# Where a run whose policies are evaluated beside training keeps the best of them.
BEST_POLICY = "evaluations/best"


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
    return _build(worker, fields, wishes or Wishes())


def resume(
    before: TrainRunConfig,
    base: "RunRecord",
    *,
    worker: str = "",
    algo: str = "",
    checkpoint: str = "",
    env_id: str | None = None,
    seed: int | None = None,
    total_timesteps: int | None = None,
    parameters: Mapping[str, JsonValue] | None = None,
    name: str = "",
    notes: str = "",
    keep: str | None = None,
    site: str | None = None,
) -> TrainRunConfig:
    """Continue a run from a checkpoint; what is not given is as it was before.

    Args:
        before: The configuration of the run.
        base: The record of the run.
        worker: The worker that is expected; any when empty.
        algo: The algorithm that is expected; any when empty.
        checkpoint: A checkpoint's path; the run's newest when empty.
        env_id: Another environment.
        seed: Another seed.
        total_timesteps: Steps in all, counted from the beginning of the earlier run.
        parameters: Arguments of the algorithm that change.
        name: Another name.
        notes: Other notes.
        keep: Which checkpoints to keep; see `mosaic.config.keeping`.
        site: Another place to run.

    Raises:
        InvalidConfigError: The run was trained with something else or has saved nothing.
    """
    if worker and base.worker != worker:
        message = (
            f"run {base.run_id} was trained by the worker {base.worker}, not by {worker}; "
            f"continue it with: mosaic train {base.algo or base.worker} --worker {base.worker} "
            f"--resume {base.run_id}"
        )
        raise _refusal(OTHER_ALGORITHM, message)
    if algo and base.algo and base.algo != algo:
        message = f"run {base.run_id} was trained with {base.algo}, not {algo}"
        raise _refusal(OTHER_ALGORITHM, message)
    if not checkpoint and base.newest_checkpoint("full") is None:
        raise _refusal(NOTHING_SAVED, f"run {base.run_id} has no checkpoint to continue from")
    # Where the earlier run was to stop says nothing about how far this one goes.
    kept = {key: value for key, value in _parameters(before).items() if key != "stop_at"}
    changes: Parameters = {
        "mode": "resume_training",
        "checkpoint_path": checkpoint or _saved_by(base, "full"),
        "algo_params": {**kept, **(parameters or {})},
    }
    if notes:
        changes["notes"] = notes
    fields: Parameters = {"env_id": env_id, "seed": seed, "total_timesteps": total_timesteps}
    return _changed(before, fields, changes, name=name, keep=keep, site=site)


def resume_file(
    worker: Worker,
    checkpoint: str,
    *,
    algo: str = "",
    env_id: str | None = None,
    seed: int | None = None,
    total_timesteps: int | None = None,
    parameters: Mapping[str, JsonValue] | None = None,
    notes: str = "",
    wishes: Wishes | None = None,
) -> TrainRunConfig:
    """Continue from a checkpoint file of one's own; what is not given, the worker finds in it.

    Args:
        worker: Who continues it.
        checkpoint: The file's path.
        algo: The algorithm that is expected; any when empty.
        env_id: The environment that is expected; any when it is None.
        seed: Random seed.
        total_timesteps: Steps in all, counted from the beginning of the earlier run.
        parameters: Arguments of the algorithm that change.
        notes: Notes.
        wishes: Name, resources, limits and artifacts.

    Raises:
        InvalidConfigError: With every problem.
    """
    given: Parameters = {"seed": seed, "total_timesteps": total_timesteps, "env_id": env_id}
    fields: Parameters = {
        "run_id": "${RUN_ID}",
        "algo": algo,
        "extras": {
            "mode": "resume_training",
            "checkpoint_path": checkpoint,
            "algo_params": dict(parameters or {}),
            "notes": notes,
        },
        **{name: value for name, value in given.items() if value is not None},
    }
    name = f"from {Path(checkpoint).name}"[:LONGEST_NAME]
    return _build(worker, fields, wishes or Wishes(), default_name=name)


def evaluate(
    base: "RunRecord | None",
    *,
    worker: str = "",
    policy: str = "",
    best: bool = False,
    algo: str = "",
    env_id: str | None = None,
    episodes: int = 20,
    seed: int = 1,
    gamma: float | None = None,
    max_steps: int | None = None,
    each_seed: bool = False,
    policy_seed: int | None = None,
    video: bool = False,
    repeat: bool = False,
    tags: Sequence[str] = (),
) -> TrainRunConfig:
    """Play the newest policy of a run, or a policy file.

    Args:
        base: The record of the run; None for a file of one's own.
        worker: Who plays a file of one's own.
        policy: A policy's path; the run's newest when empty.
        best: Play the best policy of those that were evaluated beside training, not the newest.
        algo: The algorithm of a file that does not say.
        env_id: Another environment than it was trained in.
        episodes: How many to play.
        seed: Of the evaluation, not of the training.
        gamma: Discount of the discounted return; the policy's own by default.
        max_steps: End longer episodes.
        each_seed: Begin each episode with a seed of its own: `seed`, `seed + 1`, ….
        policy_seed: Which seed plays, of a run that trained several; the best by default.
        video: Record every episode.
        repeat: Continue until cancelled.
        tags: Tags of the evaluation.

    Raises:
        InvalidConfigError: The run has saved no policy.
    """
    if base is not None and best:
        policy = str(Path(base.run_dir) / BEST_POLICY)
    if base is not None and not policy:
        if base.newest_checkpoint("policy") is None:
            raise _refusal(NOTHING_SAVED, f"run {base.run_id} has saved no policy yet")
        policy = _saved_by(base, "policy")
    extras: Parameters = {
        "mode": "policy_eval",
        "policy_path": policy,
        "eval_episodes": episodes,
        "capture_video": video,
        "repeat": repeat,
    }
    if gamma is not None:
        extras["gamma"] = gamma
    if each_seed:
        extras["eval_each_seed"] = True
    if policy_seed is not None:
        extras["eval_policy_seed"] = policy_seed
    if max_steps:
        extras["eval_max_steps"] = max_steps
    name = f"eval of {base.run_name or base.run_id}" if base else f"eval of {Path(policy).name}"
    fields: Parameters = {
        # A script's run has no algorithm of its own; the policies of its phases know theirs.
        "algo": algo or (base.algo if base and base.mode != "script" else ""),
        "env_id": env_id or (base.env_id if base else ""),
        "seed": seed,
        "extras": extras,
    }
    actor = Worker(base.worker if base else worker)
    return _build(actor, fields, Wishes(name=name[:LONGEST_NAME], tags=tags))


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
    return _build(Worker(worker), fields, wishes or Wishes(), default_name=file.stem)


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
    return _build(Worker(worker), fields, wishes or Wishes(), default_name=default)


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
    return _build(Worker(worker), fields, Wishes(name=f"play {env_id}", tensorboard=False))


def take_over(
    worker: str,
    base: "RunRecord",
    *,
    policy: str = "",
    seed: int = 1,
    script: str = "",
    fps: float | None = None,
) -> TrainRunConfig:
    """Let the newest policy of a run play, with a person who may take over and hand back.

    It is a run of its own with an environment of its own: what the person does is neither learned
    from nor counted by the run whose policy plays.

    Args:
        worker: Who holds the keys.
        base: The run whose policy plays.
        policy: The policy's path; the run's newest when empty.
        seed: The seed of the first episode; each further one adds 1.
        script: The text of a key script, in which `policy` is a step of the policy's; empty for a
            person at the keys.
        fps: Steps per second; the environment's own by default.

    Raises:
        InvalidConfigError: The run has saved no policy.
    """
    if not policy and base.newest_checkpoint("policy") is None:
        raise _refusal(NOTHING_SAVED, f"run {base.run_id} has saved no policy yet")
    extras: Parameters = {
        "mode": "take_over",
        "policy_path": policy or _saved_by(base, "policy"),
        "policy_worker": base.worker,
    }
    if script:
        extras["script"] = script
    if fps:
        extras["fps"] = float(fps)
    fields: Parameters = {
        "algo": base.algo,
        "env_id": base.env_id,
        "seed": seed,
        "extras": extras,
    }
    name = f"play with {base.run_name or base.run_id}"[:LONGEST_NAME]
    return _build(Worker(worker), fields, Wishes(name=name, tensorboard=False))


def any_worker(worker: Worker, fields: Mapping[str, JsonValue]) -> TrainRunConfig:
    """A run of a worker by its own fields, as its schema has them."""
    return _build(worker, dict(fields), Wishes())


def clone(
    before: TrainRunConfig, *, seed: int | None = None, name: str = "", site: str | None = None
) -> TrainRunConfig:
    """The same run once more."""
    return _changed(before, {"seed": seed}, {}, name=name, site=site)


def with_parameters(before: TrainRunConfig, parameters: Mapping[str, JsonValue]) -> TrainRunConfig:
    """The same run with other arguments of its algorithm."""
    return _changed(before, {}, {"algo_params": {**_parameters(before), **parameters}})


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
        extras: Parameters = {"algo_params": {**_parameters(before), **parameters}}
    else:
        extras = dict(parameters)
    return _changed(before, {"seed": seed}, extras, name=name, tags=[*tags, *before.metadata.tags])


def retry(before: TrainRunConfig, tags: Sequence[str]) -> TrainRunConfig:
    """The same run once more, under other tags."""
    return _changed(before, {}, {}, tags=tags)


def without_secrets(config: TrainRunConfig) -> TrainRunConfig:
    """A configuration that names its secrets by reference, for keeping outside the daemon."""
    return read_config(extract(config.document(), {}))


def _build(
    worker: Worker, fields: Parameters, wishes: Wishes, default_name: str = ""
) -> TrainRunConfig:
    request: Parameters = {"type": worker.type, "config": fields}
    if worker.module:
        request["module"] = worker.module
    artifacts: Parameters = {
        "tensorboard": {"enabled": wishes.tensorboard},
        "wandb": {"enabled": wishes.wandb},
    }
    if wishes.keep_checkpoints is not None:
        artifacts["keep_checkpoints"] = wishes.keep_checkpoints
    document: Parameters = {
        "run_name": wishes.name or default_name,
        "environment": dict(wishes.environment),
        "resources": {
            "cpus": {"requested": wishes.cpus},
            # A run that asks for a GPU cannot do without: on the CPU it would take days.
            "gpus": {"requested": wishes.gpus, "mandatory": wishes.gpus},
            "memory_mb": wishes.memory_mb,
        },
        "limits": {"max_wallclock_minutes": wishes.max_minutes},
        "artifacts": artifacts,
        "metadata": {"worker": request, "tags": list(wishes.tags)},
    }
    if wishes.site is not None:
        document["site"] = wishes.site
    return validate_train_run_config(document)


def _changed(
    before: TrainRunConfig,
    fields: Parameters,
    extras: Parameters,
    *,
    name: str = "",
    tags: Sequence[str] | None = None,
    keep: str | None = None,
    site: str | None = None,
) -> TrainRunConfig:
    """A copy with some of the worker's fields and extras replaced; None leaves a field alone."""
    worker = before.worker
    given = {key: value for key, value in fields.items() if value is not None}
    if extras:
        given["extras"] = {**worker.extras.model_dump(exclude_unset=True), **extras}
    document = before.document()
    request = {
        **before.metadata.worker.model_dump(exclude_unset=True),
        "config": {**worker.model_dump(exclude_unset=True), **given},
    }
    kept = before.metadata.tags if tags is None else tags
    document["metadata"] = {"worker": request, "tags": list(kept)}
    if name:
        document["run_name"] = name
    if keep is not None:
        artifacts = before.artifacts.model_dump(exclude_unset=True)
        document["artifacts"] = {**artifacts, "keep_checkpoints": keep}
    if site is not None:
        document["site"] = site
    return validate_train_run_config(document)


def _parameters(config: TrainRunConfig) -> Parameters:
    return dict(config.worker.extras.algo_params)


def _saved_by(base: "RunRecord", kind: str) -> str:
    """Where a run keeps its checkpoints; given a folder, workers take the newest valid one.

    A script of several phases has a folder for each of them; the newest one counts.
    """
    newest = base.newest_checkpoint(kind)
    folder = Path(newest.path).parent if newest else Path("checkpoints")
    return str(Path(base.run_dir) / folder)


def _refusal(code: str, text: str) -> InvalidConfigError:
    return InvalidConfigError([Problem("", code, text)])
