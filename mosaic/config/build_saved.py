"""Configurations of runs that start from what another run, or a file, has saved.

Callers reach these builders through `mosaic.config.build`. Continuing or playing a run that has
saved nothing to start from is refused here, before anything is submitted, unless a file is named.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from mosaic.config.assembling import LONGEST_NAME, assembled, changed, parameters_of
from mosaic.config.model import Parameters, TrainRunConfig
from mosaic.config.wishes import Wishes, Worker
from mosaic.errors import InvalidConfigError, Problem

if TYPE_CHECKING:
    from mosaic.records import RunRecord

OTHER_ALGORITHM, NOTHING_SAVED = "CFG120", "CFG121"
# Where a run whose policies are evaluated beside training keeps the best of them.
BEST_POLICY = "evaluations/best"


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
    kept = {key: value for key, value in parameters_of(before).items() if key != "stop_at"}
    changes: Parameters = {
        "mode": "resume_training",
        "checkpoint_path": checkpoint or saved_by(base, "full"),
        "algo_params": {**kept, **(parameters or {})},
    }
    if notes:
        changes["notes"] = notes
    fields: Parameters = {"env_id": env_id, "seed": seed, "total_timesteps": total_timesteps}
    return changed(before, fields, changes, name=name, keep=keep, site=site)


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
    return assembled(worker, fields, wishes or Wishes(), default_name=name)


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
        policy = saved_by(base, "policy")
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
    return assembled(actor, fields, Wishes(name=name[:LONGEST_NAME], tags=tags))


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
        "policy_path": policy or saved_by(base, "policy"),
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
    return assembled(Worker(worker), fields, Wishes(name=name, tensorboard=False))


def saved_by(base: "RunRecord", kind: str) -> str:
    """Where a run keeps its checkpoints; given a folder, workers take the newest valid one.

    A script of several phases has a folder for each of them; the newest one counts.
    """
    newest = base.newest_checkpoint(kind)
    folder = Path(newest.path).parent if newest else Path("checkpoints")
    return str(Path(base.run_dir) / folder)


def _refusal(code: str, text: str) -> InvalidConfigError:
    return InvalidConfigError([Problem("", code, text)])
