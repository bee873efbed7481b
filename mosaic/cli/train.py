"""`mosaic train`, `submit` and `clone`: building a configuration and sending it off."""

import json
import os
from pathlib import Path
from typing import Any

import click

from mosaic.cli import output
from mosaic.cli.flags import read_flags
from mosaic.cli.follow import follow
from mosaic.cli.options import complete_algorithms, json_option, run_argument
from mosaic.client import TrainerClient
from mosaic.config.suggest import did_you_mean
from mosaic.errors import InvalidConfigError, Problem
from mosaic.records import RunRecord
from mosaic.workers.capabilities import WorkerCapabilities
from mosaic.workers.discovery import discover, load_hook

_DEFAULT_WORKER = "cleanrl"


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    epilog="Any other flag is the script's own: --num-envs 8 --learning-rate 1e-3",
)
@click.argument("algo", shell_complete=complete_algorithms)
@click.option("--env-id", help="The environment; the script's own default when left out.")
@click.option("--total-timesteps", type=float, help="How long to train, e.g. 1e6.")
@click.option("--seed", type=click.IntRange(0), help="Random seed.")
@click.option("--name", default="", help="A name for people.")
@click.option("--tag", "tags", multiple=True, help="A tag; may be repeated.")
@click.option("--notes", default="", help="What you want to remember about it.")
@click.option("--cpus", type=click.IntRange(1), default=1, show_default=True, help="CPU slots.")
@click.option("--gpus", type=click.IntRange(0), default=0, show_default=True, help="GPUs.")
@click.option("--memory-mb", type=click.IntRange(1), help="Memory to reserve.")
@click.option("--max-minutes", type=float, help="Wall-clock limit.")
@click.option("--priority", type=int, default=0, show_default=True, help="Higher goes first.")
@click.option("--wandb", is_flag=True, help="Track with Weights & Biases.")
@click.option("--capture-video", is_flag=True, help="Record videos of the first environment.")
@click.option("--curriculum", help="A preset's name, or a JSON file with a list of stages.")
@click.option("--resume", "parent", help="Continue from this run's newest checkpoint.")
@click.option("--stop-at", type=int, help="Checkpoint and end cleanly at this step.")
@click.option("--smoke", is_flag=True, help="Take the short settings that the script declares.")
@click.option("--cold", is_flag=True, help="Start a fresh interpreter instead of a warm fork.")
@click.option("--dry-run", is_flag=True, help="Check everything, show the command, start nothing.")
@click.option("--detach", is_flag=True, help="Answer with the run's id and return.")
@json_option
@click.pass_context
def train(
    ctx: click.Context,
    /,
    algo: str,
    parent: str | None,
    priority: int,
    cold: bool,
    dry_run: bool,
    detach: bool,
    as_json: bool,
    **settings: Any,
) -> int:
    """Train ALGO and follow the run; its exit status is the run's.

    ALGO is an algorithm's name (`mosaic workers --algos cleanrl` lists them), cleanrl:NAME for
    an unmodified upstream script, or a worker's type.
    """
    worker, algorithm = choose_worker(algo)
    described = describe_algorithm(worker, algorithm)
    arguments = described["arguments"] if described else None
    flags = read_flags(ctx.args, arguments, algo)
    if dry_run and not parent:
        config = fresh_config(worker, algorithm, described, settings, flags)
        return _dry_run(worker, config, as_json)
    with TrainerClient.connect() as trainer:
        if parent:
            base = trainer.get(parent)
            config = _continued(base, algorithm, settings, flags)
            parent = base.run_id
        else:
            config = fresh_config(worker, algorithm, described, settings, flags)
        if dry_run:
            return _dry_run(worker, config, as_json)
        record = trainer.submit(config, priority=priority, cold=cold, parent_run_id=parent or "")
        return answer(trainer, record, detach, as_json)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--priority", type=int, default=0, show_default=True, help="Higher goes first.")
@click.option("--key", default="", help="Idempotency key: the same key gives the same run.")
@click.option("--cold", is_flag=True, help="Start a fresh interpreter instead of a warm fork.")
@click.option("--follow/--detach", "following", default=False, help="Follow the run.")
@json_option
def submit(file: Path, priority: int, key: str, cold: bool, following: bool, as_json: bool) -> int:
    """Submit a JSON configuration, nested or flat. All its problems are listed at once."""
    with TrainerClient.connect() as trainer:
        text = file.read_text(errors="replace")
        record = trainer.submit(text, priority=priority, idempotency_key=key, cold=cold)
        return answer(trainer, record, not following, as_json)


@click.command()
@run_argument
@click.option("--seed", type=click.IntRange(0), help="Another seed.")
@click.option("--name", default="", help="Another name.")
@click.option("--priority", type=int, default=0, show_default=True, help="Higher goes first.")
@click.option("--follow/--detach", "following", default=False, help="Follow the run.")
@json_option
def clone(
    run: str, seed: int | None, name: str, priority: int, following: bool, as_json: bool
) -> int:
    """Submit a run's configuration again."""
    with TrainerClient.connect() as trainer:
        base = trainer.get(run)
        config = _config_of(base)
        if seed is not None:
            _worker_fields(config)["seed"] = seed
        if name:
            config["run_name"] = name
        record = trainer.submit(config, priority=priority, parent_run_id=base.run_id)
        return answer(trainer, record, not following, as_json)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", default="", help="A name for people.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--cpus", type=click.IntRange(1), default=1, show_default=True, help="CPU slots.")
@click.option("--max-minutes", type=float, help="Wall-clock limit.")
@click.option("--follow/--detach", "following", default=True, help="Follow the run.")
@json_option
def script(
    file: Path,
    name: str,
    seed: int,
    cpus: int,
    max_minutes: float | None,
    following: bool,
    as_json: bool,
) -> int:
    """Run a shell script of several training phases as one run."""
    extras = {"mode": "script", "script_path": str(file.absolute())}
    config = {
        "run_name": name or file.name,
        "resources": {"cpus": {"requested": cpus}},
        "limits": {"max_wallclock_minutes": max_minutes},
        "artifacts": {},
        "metadata": {
            "worker": {"type": _DEFAULT_WORKER, "config": {"seed": seed, "extras": extras}}
        },
    }
    with TrainerClient.connect() as trainer:
        return answer(trainer, trainer.submit(config), not following, as_json)


def _dry_run(worker: WorkerCapabilities, config: dict[str, Any], as_json: bool) -> int:
    """What the worker itself says about a configuration; 2 when it would refuse it."""
    if not worker.dry_run:
        raise InvalidConfigError(
            [Problem("", "CLI105", f"the worker {worker.worker_type!r} has no dry run")]
        )
    fits, text = load_hook(worker.dry_run)(config)
    if as_json:
        output.print_json({"fits": fits, "report": text})
    else:
        print(text.rstrip())
    return 0 if fits else 2


def answer(trainer: TrainerClient, record: RunRecord, detach: bool, as_json: bool) -> int:
    """Print the id, or follow the run to its end."""
    if not detach:
        return follow(trainer, record.run_id, as_json)
    if as_json:
        output.print_json({"run_id": record.run_id})
    else:
        print(record.run_id)
    return 0


def choose_worker(algo: str) -> tuple[WorkerCapabilities, str]:
    """The worker for what was typed, and the algorithm's name for it.

    Raises:
        InvalidConfigError: Nothing has this name.
    """
    workers = discover()
    wanted = workers.get(algo)
    if wanted is not None and algo != _DEFAULT_WORKER:
        if wanted.capabilities is None:
            raise InvalidConfigError([Problem("", "CFG105", f"{algo}: {wanted.problem}")])
        return wanted.capabilities, ""
    default = workers[_DEFAULT_WORKER]
    if default.capabilities is None:
        raise InvalidConfigError([Problem("", "CFG105", f"{_DEFAULT_WORKER}: {default.problem}")])
    names = load_hook(default.capabilities.algorithms)()
    if algo not in names and not algo.startswith("cleanrl:"):
        others = [name for name in workers if name != _DEFAULT_WORKER]
        message = (
            f"there is no algorithm or worker {algo!r}{did_you_mean(algo, [*names, *others])} "
            "(`mosaic workers --algos cleanrl` lists them)"
        )
        raise InvalidConfigError([Problem("", "CFG106", message)])
    return default.capabilities, algo


def describe_algorithm(worker: WorkerCapabilities, algo: str) -> dict[str, Any] | None:
    """An algorithm's arguments and defaults; None when its worker does not say.

    Raises:
        InvalidConfigError: The worker does not know it.
    """
    if not worker.describe:
        return None
    try:
        described: dict[str, Any] = load_hook(worker.describe)(algo)
    except ValueError as error:
        raise InvalidConfigError([Problem("", "CFG106", str(error))]) from None
    return described


def fresh_config(
    worker: WorkerCapabilities,
    algo: str,
    described: dict[str, Any] | None,
    settings: dict[str, Any],
    flags: dict[str, Any],
) -> dict[str, Any]:
    """The configuration of a new run from the options of `mosaic train` and the script's flags."""
    facts = described or {}
    declared = {item["name"]: item["default"] for item in facts.get("arguments", ())}
    smoke = facts.get("smoke", {}) if settings["smoke"] else {}
    steps = settings["total_timesteps"] or smoke.get("total_timesteps")
    fields: dict[str, Any] = {
        "run_id": "${RUN_ID}",
        "algo": algo,
        "env_id": settings["env_id"] or smoke.get("env_id") or facts.get("default_env", ""),
        "seed": 1 if settings["seed"] is None else settings["seed"],
        "total_timesteps": int(steps or declared.get("total_timesteps") or 0) or None,
    }
    parameters = {**flags, **_schedule(settings)}
    if settings["smoke"]:
        parameters["smoke"] = True
    extras: dict[str, Any] = {"notes": settings["notes"]}
    if described:
        extras["algo_params"] = parameters
    else:
        extras.update(parameters)
    if settings["capture_video"]:
        extras["capture_video"] = True
    if settings["curriculum"]:
        extras["curriculum_schedule"] = _curriculum(settings["curriculum"])
    if settings["wandb"]:
        extras["track_wandb"] = True
        if os.environ.get("WANDB_API_KEY"):
            extras["wandb_api_key"] = os.environ["WANDB_API_KEY"]
    upstream = os.environ.get("CLEANRL_HOME") if algo.startswith("cleanrl:") else None
    return {
        "run_name": settings["name"],
        "environment": {"CLEANRL_HOME": os.path.abspath(upstream)} if upstream else {},
        "resources": {
            "cpus": {"requested": settings["cpus"]},
            "gpus": {"requested": settings["gpus"], "mandatory": settings["gpus"]},
            "memory_mb": settings["memory_mb"],
        },
        "limits": {"max_wallclock_minutes": settings["max_minutes"]},
        "artifacts": {"tensorboard": {"enabled": True}, "wandb": {"enabled": settings["wandb"]}},
        "metadata": {
            "worker": {
                "type": worker.worker_type,
                "module": worker.module,
                "config": {**fields, "extras": extras},
            },
            "tags": list(settings["tags"]),
        },
    }


def _continued(
    base: RunRecord, algo: str, settings: dict[str, Any], flags: dict[str, Any]
) -> dict[str, Any]:
    """A run's configuration, set up to go on from its newest checkpoint."""
    if base.algo != algo:
        message = f"run {base.run_id} was trained with {base.algo}, not {algo}"
        raise InvalidConfigError([Problem("", "CFG120", message)])
    if not any(item.kind == "full" for item in base.checkpoints):
        message = f"run {base.run_id} has no checkpoint to continue from"
        raise InvalidConfigError([Problem("", "CFG121", message)])
    config = _config_of(base)
    fields = _worker_fields(config)
    for name in ("env_id", "seed"):
        if settings[name] is not None:
            fields[name] = settings[name]
    if settings["total_timesteps"]:
        fields["total_timesteps"] = int(settings["total_timesteps"])
    extras = fields.setdefault("extras", {})
    extras["mode"] = "resume_training"
    extras["checkpoint_path"] = str(Path(base.run_dir) / "checkpoints")
    kept = dict(extras.get("algo_params") or {})
    kept.pop("stop_at", None)
    extras["algo_params"] = {**kept, **flags, **_schedule(settings)}
    if settings["notes"]:
        extras["notes"] = settings["notes"]
    if settings["name"]:
        config["run_name"] = settings["name"]
    return config


def _curriculum(given: str) -> Any:
    """The stages in a file, or the preset's name for the worker to look up."""
    path = Path(given)
    if not path.is_file():
        return given
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        message = f"{path} is not valid JSON: {error}"
        raise InvalidConfigError([Problem("", "CFG100", message)]) from None


def _schedule(settings: dict[str, Any]) -> dict[str, Any]:
    return {"stop_at": settings["stop_at"]} if settings["stop_at"] else {}


def _config_of(record: RunRecord) -> dict[str, Any]:
    """A run's configuration as it was submitted, secrets by reference."""
    config: dict[str, Any] = json.loads((Path(record.run_dir) / "config.json").read_text())
    return config


def _worker_fields(config: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = config["metadata"]["worker"]["config"]
    return fields
