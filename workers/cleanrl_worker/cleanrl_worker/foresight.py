"""What several settings mean together, known before a run exists: batches, turns, teachers."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

from cleanrl_worker import older_gym
from cleanrl_worker.config import CleanRLWorkerConfig, problem
from cleanrl_worker.ondevice import registry
from cleanrl_worker.ondevice.sweeping import device_count
from cleanrl_worker.resolution import Script
from mosaic.config.json_types import JsonValue
from mosaic.curves.members import members_asked
from mosaic.workers import Problem

BAD_COMBINATION, NO_TEACHER, MISSING_IMPORT = "CFG136", "CFG137", "CFG138"
# What a missing package of upstream's scripts takes, where `pip install NAME` is not all of it.
_HOW = {
    "flax": "pip install flax==0.12.8, which keeps the installed jax",
    "stable_baselines3": "pip install --no-deps stable_baselines3==2.9.2",
    "procgen": "procgen was never built for Python 3.11; the bundled ppo_procgen uses EnvPool",
    "isaacgym": "isaacgym needs an NVIDIA GPU and Python 3.8",
    "envpool": "mosaic extras envpool",
    "supersuit": "mosaic extras pettingzoo",
    "pettingzoo": "mosaic extras pettingzoo",
    "jax": "mosaic extras jax",
    "optax": "mosaic extras jax",
}
_TEACHERS = ("teacher_policy", "teacher_trajectories")


def problems(config: CleanRLWorkerConfig, script: Script) -> Iterator[Problem]:
    """Every combination that the script itself would refuse once it has started."""
    # Upstream's scripts have the same names for things of their own.
    if not script.bundled:
        yield from _import_problems(script)
        return
    values = values_of(config, script)
    yield from _batch_problems(script.name, values)
    if config.mode == "train":
        yield from _length_problems(values)
        yield from _taught_problems(values)
        yield from _late_learning(config, values)
        yield from _upload_problems(values)
    for less, more in script.schema.out_of_order(values):
        low, high = values[less.name], values[more.name]
        text = f"{less.name} {low:g} must be below {more.name}, which is {high:g}"
        yield problem(f"extras/algo_params/{less.name}", BAD_COMBINATION, text)
    yield from _judging_problems(config, script, values)
    yield from _teacher_problems(script.name, values)
    if "dataset" in values and not values["dataset"]:
        text = (
            f"{script.name} needs episodes to learn from: a Minari data set's id or folder; "
            "`mosaic export RUN --minari ID` makes one, and `example` is one to try it with"
        )
        yield problem("extras/algo_params/dataset", NO_TEACHER, text)


def _import_problems(script: Script) -> Iterator[Problem]:
    """Packages that a foreign script imports and that are not here: it could only fail."""
    folders = (script.path.parent, script.path.parent.parent)
    # Modules of its own checkout, such as `cleanrl_utils`, are found when it runs.
    beside = {path.stem for folder in folders for path in folder.iterdir()}
    missing = [
        name
        for name in sorted(script.schema.imports - beside)
        if importlib.util.find_spec(name) is None and not older_gym.stands_in_for(name)
    ]
    if missing:
        hints = "".join(f"; {_HOW[name]}" for name in missing if name in _HOW)
        text = f"{script.name} imports {', '.join(missing)}, not installed here{hints}"
        yield problem("algo", MISSING_IMPORT, text)


def values_of(config: CleanRLWorkerConfig, script: Script) -> dict[str, JsonValue]:
    """Each argument as the script will see it: defaults, short settings, what was given."""
    declared = {name: item.default for name, item in script.schema.arguments.items()}
    given = config.parameters
    short = script.schema.smoke if given.get("smoke") else {}
    asked = {"total_timesteps": config.total_timesteps} if config.total_timesteps else {}
    return {**declared, **short, **asked, **given}


def _batch_problems(name: str, values: dict[str, JsonValue]) -> Iterator[Problem]:
    envs, steps, parts = (values.get(key) for key in ("num_envs", "num_steps", "num_minibatches"))
    if not (isinstance(envs, int) and isinstance(steps, int) and isinstance(parts, int)):
        return
    # Each process of several has its own share of the environments; the script knows how many.
    if "multigpu" in name or parts < 1:
        return
    # A recurrent network learns from whole sequences, so its environments are divided.
    whole, what = (envs, "") if name.endswith("_lstm") else (envs * steps, f" times {steps} steps")
    if whole % parts:
        text = (
            f"num_minibatches {parts} does not divide {envs} environments{what}; "
            f"try {_divisor(whole, parts)}"
        )
        yield problem("extras/algo_params/num_minibatches", BAD_COMBINATION, text)


def _judging_problems(
    config: CleanRLWorkerConfig, script: Script, values: dict[str, JsonValue]
) -> Iterator[Problem]:
    """Where evaluation beside training has nothing that it could judge."""
    if not values.get("eval_every"):
        return
    algorithm, seeds = script.schema.algorithm, values.get("num_seeds")
    text = ""
    if "pettingzoo" in algorithm.get("requires", ()):
        text = f"{script.name} trains several players, whose game is not judged by one return"
    elif isinstance(seeds, int) and seeds > 1:
        text = (
            f"num_seeds {seeds} trains {seeds} policies, and evaluation beside training judges one"
        )
    elif algorithm.get("on_device") and config.env_id not in registry.TWINS:
        text = f"{config.env_id} exists on the device only, where policies are not judged"
    if text:
        hint = "leave eval_every out and evaluate the policy afterwards"
        yield problem("extras/algo_params/eval_every", BAD_COMBINATION, f"{text}; {hint}")


def _divisor(whole: int, near: int) -> int:
    """The largest divisor that is not larger than what was asked for."""
    return next(number for number in range(min(near, whole), 0, -1) if whole % number == 0)


def _length_problems(values: dict[str, JsonValue]) -> Iterator[Problem]:
    envs, steps, total = (values.get(key) for key in ("num_envs", "num_steps", "total_timesteps"))
    turn = envs * (steps if isinstance(steps, int) else 1) if isinstance(envs, int) else 0
    if isinstance(total, int) and 0 < total < turn:
        text = (
            f"total_timesteps {total:,} leaves no room for one turn of {turn:,} steps "
            f"(num_envs times num_steps); use at least {turn}"
        )
        yield problem("total_timesteps", BAD_COMBINATION, text)


def _taught_problems(values: dict[str, JsonValue]) -> Iterator[Problem]:
    """A recording stands for the teacher's whole part; the student has to have one too."""
    first, total = values.get("teacher_steps"), values.get("total_timesteps")
    recorded = values.get("teacher_trajectories")
    if recorded and isinstance(first, int) and isinstance(total, int) and total <= first:
        text = (
            f"total_timesteps {total:,} ends before the student's first step: the recording "
            f"stands for {first:,} steps (teacher_steps); use more than {first}, or fewer "
            "teacher_steps"
        )
        yield problem("total_timesteps", BAD_COMBINATION, text)


def _late_learning(config: CleanRLWorkerConfig, values: dict[str, JsonValue]) -> Iterator[Problem]:
    """Learning that was set to begin after the end; by default a short run may only try things."""
    if "learning_starts" in config.parameters and (sentence := late_learning(values)):
        yield problem("extras/algo_params/learning_starts", BAD_COMBINATION, sentence)


def _upload_problems(values: dict[str, JsonValue]) -> Iterator[Problem]:
    """A policy that is to be uploaded but was not asked to be saved."""
    if values.get("upload_model") and not values.get("save_model"):
        text = "upload_model uploads what save_model saves; set save_model too"
        yield problem("extras/algo_params/upload_model", BAD_COMBINATION, text)


def late_learning(values: dict[str, JsonValue]) -> str:
    """Why a run would end before it learns anything; empty when it does learn."""
    first, total = values.get("learning_starts"), values.get("total_timesteps")
    if not isinstance(first, int) or not isinstance(total, int) or first < total:
        return ""
    return (
        f"learning_starts {first:,} is not before the end at step {total:,}, so nothing would be "
        f"learned; use at most {max(0, total // 10)}, or more steps"
    )


def notes(config: CleanRLWorkerConfig, script: Script, gpus: int = 0) -> list[str]:
    """What is allowed but hardly meant, for people who look before they run.

    Args:
        config: The run.
        script: Its algorithm.
        gpus: How many GPUs are reserved for it.
    """
    if not script.bundled:
        return []
    values = values_of(config, script)
    found = []
    if config.mode == "train" and "learning_starts" not in config.parameters:
        found.append(late_learning(values))
    if script.schema.algorithm.get("on_device"):
        found.append(idle_devices(values, gpus))
    return list(filter(None, found))


def idle_devices(values: dict[str, JsonValue], gpus: int) -> str:
    """Which devices a compiled run would leave idle; empty when it uses all of them.

    Args:
        values: Each argument as the script will see it.
        gpus: How many GPUs are reserved; 0 for a run on the CPU.
    """
    members = max(1, len(members_asked(values, 0)))
    threads = values.get("torch_threads")
    devices, name = (gpus, "GPUs") if gpus else (threads, "threads")
    # A single training on a CPU lets XLA use the threads.
    if not isinstance(devices, int) or devices < 2 or (members == 1 and not gpus):
        return ""
    used = device_count(members, devices)
    if used == devices:
        return ""
    trained = "1 training" if members == 1 else f"{members} trainings"
    return (
        f"only {used} of {devices} {name} would be used: each training is computed on one, and "
        f"{trained} cannot be shared out evenly; use a multiple of {devices} (num_seeds, "
        "vmap_sweep)"
    )


def _teacher_problems(name: str, values: dict[str, JsonValue]) -> Iterator[Problem]:
    if not set(_TEACHERS) <= values.keys():
        return
    if not any(values.get(key) for key in (*_TEACHERS, "train_teacher_steps")):
        text = (
            f"{name} needs a teacher: a trained policy (teacher_policy), an expert's recorded "
            "play (teacher_trajectories), or one that is trained first (train_teacher_steps)"
        )
        yield problem("extras/algo_params/teacher_policy", NO_TEACHER, text)
    for key in _TEACHERS:
        given = values.get(key)
        if isinstance(given, str) and given and not Path(given).expanduser().exists():
            where = "" if Path(given).is_absolute() else "; give an absolute path"
            text = f"there is no file or folder {given!r}{where}"
            yield problem(f"extras/algo_params/{key}", NO_TEACHER, text)
