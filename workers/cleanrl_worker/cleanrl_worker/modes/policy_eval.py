"""Policy evaluation: plays a trained policy and writes down how well it does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cleanrl_worker import bundles, catalog
from cleanrl_worker.config import CleanRLWorkerConfig, problem
from cleanrl_worker.kit.errors import CheckpointError
from cleanrl_worker.modes.plan import Plan
from cleanrl_worker.resolution import UPSTREAM_PREFIX
from cleanrl_worker.running.checkpoint_files import POLICY_SUFFIX, CheckpointInfo, describe, locate
from cleanrl_worker.script_folders import event_folder
from cleanrl_worker.wrappers.curriculum import compare_spaces
from mosaic.config.json_types import JsonValue
from mosaic.workers import Problem

PROGRAM = "cleanrl_worker.programs.evaluate"
BAD_POLICY = "CFG131"


def complete(config: CleanRLWorkerConfig, run_dir: Path | None) -> CleanRLWorkerConfig:
    """The policy file knows its algorithm and its environment."""
    try:
        info = read_policy(config, run_dir, check=False)
    except CheckpointError:
        return config
    known = "" if info.foreign_module else info.env_id
    # What an upstream script saves is played by the bundled algorithm of its name.
    told = config.algo.removeprefix(UPSTREAM_PREFIX)
    return config.with_overrides(algo=told or info.algorithm, env_id=config.env_id or known)


def problems(
    config: CleanRLWorkerConfig, run_dir: Path | None, *, thorough: bool
) -> Iterator[Problem]:
    """The policy must be there, be whole, and say (or be told) what it is."""
    field = "extras/policy_path"
    if not config.extras.policy_path:
        text = "'policy_path' is required: a *.cleanrl_model file or a run directory"
        yield problem(field, BAD_POLICY, text)
        return
    try:
        info = read_policy(config, run_dir, check=thorough)
    except CheckpointError as error:
        yield problem(field, BAD_POLICY, str(error))
        return
    if not info.algorithm and not (config.algo and config.env_id):
        yield problem(
            field,
            BAD_POLICY,
            f"{info.path.name} is a plain state dict, which does not say what it is: "
            "give 'algo' and 'env_id' too",
        )
    elif info.foreign_module and not config.env_id:
        yield problem("env_id", BAD_POLICY, info.foreign_module)
    elif info.algorithm and config.algo and config.algo != info.algorithm:
        yield problem(
            "algo",
            BAD_POLICY,
            f"{info.path.name} was trained by {info.algorithm}, not by {config.algo}; "
            "leave 'algo' out",
        )
    elif sentence := _misfit(config, info.env_id):
        yield problem("env_id", BAD_POLICY, sentence)


def _misfit(config: CleanRLWorkerConfig, trained_in: str) -> str:
    """Why a policy cannot act in another environment than its own; empty when it can."""
    if not trained_in or config.env_id in ("", trained_in):
        return ""
    python = bundles.interpreter(bundles.wanted_sets(config))
    known = {item["id"] for item in catalog.environments(python)}
    # Ids of EnvPool, or of a module of the user's, are known to their own makers alone.
    if not {trained_in, config.env_id} <= known:
        return ""
    sentence = compare_spaces([trained_in, config.env_id], python)
    return f"the policy was trained in {trained_in}: {sentence}" if sentence else ""


def plan(config: CleanRLWorkerConfig, run_dir: Path) -> Plan:
    """Play in a training process of its own, like training."""
    extras = config.extras
    # Not checked again: `problems` has read the file, and the program refuses a damaged one.
    policy = locate(str(extras.policy_path), run_dir, POLICY_SUFFIX, check=False)
    settings: dict[str, JsonValue] = {
        "policy": str(policy),
        "algo": config.algo or None,
        "env_id": config.env_id or None,
        "episodes": extras.eval_episodes,
        "seed": config.seed,
        "gamma": extras.gamma,
        "max_steps": extras.eval_max_steps or None,
        "run_dir": str(run_dir),
        "tensorboard_dir": str(event_folder(run_dir, extras.tensorboard_dir)),
        "video": extras.capture_video or None,
        "repeat": extras.repeat or None,
        "sample": extras.eval_sample or None,
        "each_seed": extras.eval_each_seed or None,
        "policy_seed": extras.eval_policy_seed,
    }
    return Plan(
        target=PROGRAM,
        values={name: value for name, value in settings.items() if value is not None},
        takes_values=True,
        python=bundles.interpreter(bundles.wanted_sets(config)),
    )


def read_policy(
    config: CleanRLWorkerConfig, run_dir: Path | None, *, check: bool
) -> CheckpointInfo:
    """What the policy file of a config says about itself.

    Raises:
        CheckpointError: There is none that can be used.
    """
    given = config.extras.policy_path
    if not given:
        raise CheckpointError("no policy is given")
    return describe(locate(given, run_dir, POLICY_SUFFIX, check=check))
