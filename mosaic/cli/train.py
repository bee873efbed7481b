"""`mosaic train`, `submit`, `clone` and `script`: build a configuration and submit it."""

from pathlib import Path
from typing import Any

import click

from mosaic.cli import output
from mosaic.cli.building import TrainOptions, fresh_config, own_flags
from mosaic.cli.follow import follow
from mosaic.cli.options import complete_algorithms, json_option, run_argument
from mosaic.client import TrainerClient
from mosaic.config import build
from mosaic.config.model import TrainRunConfig
from mosaic.errors import InvalidConfigError, Problem
from mosaic.records import RunRecord
from mosaic.workers import hooks
from mosaic.workers.algorithms import find_algorithm, worker_for
from mosaic.workers.capabilities import WorkerCapabilities


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    epilog="Any other flag goes to the algorithm: --num-envs 8 --learning-rate 1e-3",
)
@click.argument("algo", shell_complete=complete_algorithms)
@click.option("--worker", default="", help="Worker to use, if several have ALGO.")
@click.option("--env-id", help="Environment (default: the algorithm's).")
@click.option("--total-timesteps", type=float, help="Environment steps to train, e.g. 1e6.")
@click.option("--seed", type=click.IntRange(0), help="Random seed.")
@click.option("--name", default="", help="Name of the run.")
@click.option("--tag", "tags", multiple=True, help="Tag (repeatable).")
@click.option("--notes", default="", help="Notes.")
@click.option(
    "--cpus", type=click.IntRange(1), default=1, show_default=True, help="CPU slots to use."
)
@click.option("--gpus", type=click.IntRange(0), default=0, show_default=True, help="GPUs to use.")
@click.option("--memory-mb", type=click.IntRange(1), help="Memory to reserve.")
@click.option("--max-minutes", type=float, help="Stop after this many minutes.")
@click.option(
    "--priority",
    type=int,
    default=0,
    show_default=True,
    help="Runs with a higher priority start first.",
)
@click.option("--wandb", is_flag=True, help="Track with Weights & Biases.")
@click.option("--capture-video", is_flag=True, help="Record videos of the first environment.")
@click.option("--curriculum", help="A preset's name, or a JSON file with a list of stages.")
@click.option("--resume", "parent", help="Continue from the newest checkpoint of this run.")
@click.option("--stop-at", type=int, help="Save a checkpoint and end at this step.")
@click.option("--smoke", is_flag=True, help="Use the algorithm's smoke-test settings.")
@click.option("--cold", is_flag=True, help="Start a new interpreter instead of forking a warm one.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Check the configuration and show the command without starting it.",
)
@click.option("--detach", is_flag=True, help="Print the run's id and return.")
@json_option
@click.pass_context
def train(
    ctx: click.Context,
    /,
    algo: str,
    worker: str,
    parent: str | None,
    priority: int,
    cold: bool,
    dry_run: bool,
    detach: bool,
    as_json: bool,
    **settings: Any,
) -> int:
    """Train ALGO and follow the run until it ends.

    ALGO is an algorithm's name (`mosaic workers --algos WORKER` lists them), WORKER:NAME, or a
    worker's type.
    """
    algorithm = find_algorithm(algo, worker)
    options, flags = TrainOptions.of(settings), own_flags(ctx.args, algorithm, algo)
    # A dry run of a fresh configuration needs no daemon; continuing a run asks one about it.
    if dry_run and not parent:
        return _dry_run(algorithm.worker, fresh_config(algorithm, options, flags), as_json)
    with TrainerClient.connect() as trainer:
        if parent:
            base = trainer.get(parent)
            parent = base.run_id
            config = build.resume(
                build.read_config(trainer.config(base.run_id)),
                base,
                worker=algorithm.worker.worker_type,
                algo=algorithm.name,
                env_id=options.env_id,
                seed=options.seed,
                total_timesteps=options.steps,
                parameters={**flags, **options.schedule},
                name=options.name,
                notes=options.notes,
            )
        else:
            config = fresh_config(algorithm, options, flags)
        if dry_run:
            return _dry_run(algorithm.worker, config, as_json)
        record = trainer.submit(config, priority=priority, cold=cold, parent_run_id=parent or "")
        return answer(trainer, record, detach, as_json)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--priority",
    type=int,
    default=0,
    show_default=True,
    help="Runs with a higher priority start first.",
)
@click.option(
    "--key", default="", help="Idempotency key: submitting twice with the same key creates one run."
)
@click.option("--cold", is_flag=True, help="Start a new interpreter instead of forking a warm one.")
@click.option(
    "--follow/--detach",
    "following",
    default=False,
    help="Follow the run, or print its id and return.",
)
@json_option
def submit(file: Path, priority: int, key: str, cold: bool, following: bool, as_json: bool) -> int:
    """Submit a JSON configuration, nested or flat.

    If it has problems, all of them are listed.
    """
    with TrainerClient.connect() as trainer:
        # Bytes that are not UTF-8 are for the daemon to refuse, with a code like anything else.
        text = file.read_text(errors="replace")
        record = trainer.submit(text, priority=priority, idempotency_key=key, cold=cold)
        return answer(trainer, record, not following, as_json)


@click.command()
@run_argument
@click.option("--seed", type=click.IntRange(0), help="Seed of the copy.")
@click.option("--name", default="", help="Name of the copy.")
@click.option(
    "--priority",
    type=int,
    default=0,
    show_default=True,
    help="Runs with a higher priority start first.",
)
@click.option(
    "--follow/--detach",
    "following",
    default=False,
    help="Follow the run, or print its id and return.",
)
@json_option
def clone(
    run: str, seed: int | None, name: str, priority: int, following: bool, as_json: bool
) -> int:
    """Submit a copy of a run."""
    with TrainerClient.connect() as trainer:
        base = trainer.get(run)
        config = build.clone(build.read_config(trainer.config(base.run_id)), seed=seed, name=name)
        record = trainer.submit(config, priority=priority, parent_run_id=base.run_id)
        return answer(trainer, record, not following, as_json)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", default="", help="Name of the run.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option(
    "--cpus", type=click.IntRange(1), default=1, show_default=True, help="CPU slots to use."
)
@click.option("--max-minutes", type=float, help="Stop after this many minutes.")
@click.option("--worker", default="", help="Worker to use, if several can run scripts.")
@click.option(
    "--follow/--detach",
    "following",
    default=True,
    help="Follow the run, or print its id and return.",
)
@json_option
def script(
    file: Path,
    name: str,
    worker: str,
    seed: int,
    cpus: int,
    max_minutes: float | None,
    following: bool,
    as_json: bool,
) -> int:
    """Run a shell script with several training phases as one run."""
    wishes = build.Wishes(name=name, cpus=cpus, max_minutes=max_minutes)
    config = build.script(worker_for("script", worker).worker_type, file, seed=seed, wishes=wishes)
    with TrainerClient.connect() as trainer:
        return answer(trainer, trainer.submit(config), not following, as_json)


def _dry_run(worker: WorkerCapabilities, config: TrainRunConfig, as_json: bool) -> int:
    """What the worker itself says about a configuration; 2 when it would refuse it."""
    if not worker.dry_run:
        raise InvalidConfigError(
            [Problem("", "CLI105", f"the worker {worker.worker_type!r} has no dry run")]
        )
    fits, text = hooks.dry_run(worker, config.document())
    if as_json:
        output.print_json({"fits": fits, "report": text})
    else:
        output.say(text.rstrip())
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
