"""`mosaic train`, `submit`, `clone` and `script`: build a configuration and submit it."""

from dataclasses import replace
from pathlib import Path

import click

from mosaic.cli import output
from mosaic.cli.algorithm_help import AlgorithmCommand
from mosaic.cli.building import TrainOptions, fresh_config, judged_flags
from mosaic.cli.door import in_flags, report_in_flags
from mosaic.cli.follow import follow
from mosaic.cli.options import (
    STEPS,
    complete_algorithms,
    complete_curricula,
    complete_environments,
    complete_runs,
    connected,
    json_option,
    run_argument,
    site_option,
)
from mosaic.client import TrainerClient
from mosaic.client.training import file_config, names_a_run, with_run_directories
from mosaic.config import build
from mosaic.config.model import Parameters, TrainRunConfig
from mosaic.errors import DaemonNotRunningError, InvalidConfigError, Problem
from mosaic.records import RunRecord
from mosaic.workers import hooks
from mosaic.workers.acceptance import NO_SUCH_MODE
from mosaic.workers.algorithms import Algorithm, find_algorithm, worker_for
from mosaic.workers.capabilities import WorkerCapabilities


@click.command(
    cls=AlgorithmCommand,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    epilog="Any other flag goes to the algorithm: --num-envs 8 --learning-rate 1e-3. "
    "`mosaic train ALGO --help` lists its flags.",
)
@click.argument("algo", shell_complete=complete_algorithms)
@click.option("--worker", default="", help="Worker to use, if several have ALGO.")
@click.option(
    "--env-id", help="Environment (default: the algorithm's).", shell_complete=complete_environments
)
@click.option("--total-timesteps", type=STEPS, help="Environment steps to train, e.g. 1e6.")
@click.option("--seed", type=click.IntRange(0), help="Random seed.")
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Number of runs, each with the next seed.",
)
@click.option("--name", default="", help="Name of the run.")
@click.option("--tag", "tags", multiple=True, help="Tag (repeatable).")
@click.option("--notes", default="", help="Notes.")
@click.option(
    "--cpus", type=click.IntRange(1), default=1, show_default=True, help="CPU slots to use."
)
@click.option("--gpus", type=click.IntRange(0), default=0, show_default=True, help="GPUs to use.")
@click.option("--memory-mb", type=click.IntRange(1), help="Memory to reserve.")
@click.option("--max-minutes", type=float, help="Stop after this many minutes.")
@site_option
@click.option(
    "--priority",
    type=int,
    default=0,
    show_default=True,
    help="Runs with a higher priority start first.",
)
@click.option(
    "--keep",
    help="Checkpoints to keep, such as every:100000,best,last:3. [default: last:3]",
)
@click.option("--wandb", is_flag=True, help="Track with Weights & Biases.")
@click.option("--capture-video", is_flag=True, help="Record videos of the first environment.")
@click.option(
    "--curriculum",
    help="A preset's name, or a JSON file with a list of stages.",
    shell_complete=complete_curricula,
)
@click.option(
    "--resume",
    "parent",
    metavar="RUN|FILE",
    help="Continue from the newest checkpoint of this run, or from a file.",
    shell_complete=complete_runs,
)
@click.option(
    "--additional-timesteps",
    type=STEPS,
    help="With --resume: steps to train beyond those already done.",
)
@click.option("--stop-at", type=click.IntRange(1), help="Save a checkpoint and end at this step.")
@click.option("--smoke", is_flag=True, help="Use the algorithm's smoke-test settings.")
@click.option("--cold", is_flag=True, help="Start a new interpreter instead of forking a warm one.")
@click.option("--start", is_flag=True, help="Start the daemon if none is running.")
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
    additional_timesteps: float | None,
    seeds: int,
    priority: int,
    cold: bool,
    start: bool,
    dry_run: bool,
    detach: bool,
    as_json: bool,
    **settings: object,
) -> int:
    """Train ALGO and follow the run until it ends.

    ALGO is an algorithm's name (`mosaic workers --algos WORKER` lists them), WORKER:NAME, or a
    worker's type.
    """
    try:
        algorithm = find_algorithm(algo, worker)
        _refuse_games(algorithm.worker)
        options = TrainOptions.of(settings)
        if additional_timesteps and (not parent or options.steps):
            raise click.UsageError(
                "--additional-timesteps is for --resume, in place of --total-timesteps"
            )
        file = _checkpoint_file(parent)
        if additional_timesteps and file:
            raise click.UsageError(
                "--additional-timesteps counts from a run's checkpoint; "
                "with a file, give --total-timesteps"
            )
        flags, problems = judged_flags(ctx.args, algorithm, algo)
        # Only runs that are named are asked for: a dry run needs no daemon otherwise.
        if dry_run and (file or not parent):
            config = _begun(algorithm, options, _with_runs_found(algorithm, flags), file)
            return _dry_run(algorithm.worker, config, problems, as_json)
        done: int | None = None
        with connected(start) as trainer:
            flags = with_run_directories(algorithm, flags, trainer.get)
            if parent and not file:
                base = trainer.get(parent)
                parent, done = base.run_id, _done(base)
                if additional_timesteps:
                    options = replace(options, total_timesteps=done + additional_timesteps)
                config = _continued(trainer, base, algorithm, options, flags)
            else:
                parent, config = "", _begun(algorithm, options, flags, file)
            if dry_run:
                return _dry_run(algorithm.worker, config, problems, as_json)
            if problems:
                # What the daemon would refuse as well, so that all is said at once.
                raise InvalidConfigError([*problems, *trainer.validate(config)])
            records = [
                trainer.submit(
                    copy,
                    priority=priority,
                    cold=cold,
                    parent_run_id=parent or "",
                    parent_step=done,
                )
                for copy in _with_seeds(config, seeds)
            ]
            return answer(trainer, records, detach, as_json)
    except InvalidConfigError as error:
        raise in_flags(error.problems) from None


def _with_runs_found(algorithm: Algorithm, flags: Parameters) -> Parameters:
    """Flags in which `last`, or a run's id, has become the run's directory."""
    if not names_a_run(algorithm, flags):
        return flags
    try:
        with TrainerClient.connect() as trainer:
            return with_run_directories(algorithm, flags, trainer.get)
    except DaemonNotRunningError:
        # Then the name stays, and the worker says what it misses.
        return flags


def _refuse_games(worker: WorkerCapabilities) -> None:
    if "train" not in worker.modes and "play" in worker.modes:
        text = f"{worker.worker_type} does not train, a person plays; use: mosaic play ENV_ID"
        raise InvalidConfigError([Problem("", NO_SUCH_MODE, text)])


def _checkpoint_file(parent: str | None) -> Path | None:
    """What `--resume` names, if that is a file or folder; an id has neither a `/` nor a suffix."""
    path = Path(parent or "")
    return path if parent and (path.suffix or len(path.parts) > 1) else None


def _begun(
    algorithm: Algorithm, options: TrainOptions, flags: Parameters, file: Path | None
) -> TrainRunConfig:
    """A run that continues no other."""
    if file is not None:
        return file_config(algorithm, options, flags, file)
    return fresh_config(algorithm, options, flags)


def _done(base: RunRecord) -> int:
    """The steps behind the checkpoint that a run is continued from."""
    newest = base.newest_checkpoint("full")
    return newest.step if newest else base.progress.step


def _continued(
    trainer: TrainerClient,
    base: RunRecord,
    algorithm: Algorithm,
    options: TrainOptions,
    flags: Parameters,
) -> TrainRunConfig:
    return build.resume(
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
        keep=options.keep,
        site=options.site,
    )


def _with_seeds(config: TrainRunConfig, count: int) -> list[TrainRunConfig]:
    """The run once for each seed, beginning with its own; the name says which."""
    if count == 1:
        return [config]
    first, name = config.worker.seed, config.run_name
    return [
        build.clone(config, seed=seed, name=f"{name} seed {seed}" if name else "")
        for seed in range(first, first + count)
    ]


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
        return answer(trainer, [record], not following, as_json)


@click.command()
@run_argument
@click.option("--seed", type=click.IntRange(0), help="Seed of the copy.")
@click.option("--name", default="", help="Name of the copy.")
@site_option
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
    run: str,
    seed: int | None,
    name: str,
    site: str | None,
    priority: int,
    following: bool,
    as_json: bool,
) -> int:
    """Submit a copy of a run."""
    with TrainerClient.connect() as trainer:
        base = trainer.get(run)
        before = build.read_config(trainer.config(base.run_id))
        config = build.clone(before, seed=seed, name=name, site=site)
        record = trainer.submit(config, priority=priority, parent_run_id=base.run_id)
        return answer(trainer, [record], not following, as_json)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", default="", help="Name of the run.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option(
    "--cpus", type=click.IntRange(1), default=1, show_default=True, help="CPU slots to use."
)
@click.option("--max-minutes", type=float, help="Stop after this many minutes.")
@site_option
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
    site: str | None,
    following: bool,
    as_json: bool,
) -> int:
    """Run a shell script with several training phases as one run."""
    wishes = build.Wishes(name=name, cpus=cpus, max_minutes=max_minutes, site=site)
    config = build.script(worker_for("script", worker).worker_type, file, seed=seed, wishes=wishes)
    with TrainerClient.connect() as trainer:
        return answer(trainer, [trainer.submit(config)], not following, as_json)


def _dry_run(
    worker: WorkerCapabilities, config: TrainRunConfig, problems: list[Problem], as_json: bool
) -> int:
    """What the worker itself says about a configuration; 2 when it would refuse it."""
    if not worker.dry_run:
        raise InvalidConfigError(
            [*problems, Problem("", "CLI105", f"the worker {worker.worker_type!r} has no dry run")]
        )
    fits, text = hooks.dry_run(worker, config.document())
    fits = fits and not problems
    said = report_in_flags(text.rstrip())
    report = "\n".join([*(str(item) for item in in_flags(problems).problems), said])
    if as_json:
        output.print_json({"fits": fits, "report": report})
    else:
        output.say(report)
    return 0 if fits else 2


def answer(trainer: TrainerClient, records: list[RunRecord], detach: bool, as_json: bool) -> int:
    """Print the ids, or follow the runs to their end."""
    ids = [record.run_id for record in records]
    if not detach:
        return follow(trainer, *ids, as_json=as_json)
    if as_json:
        facts = [{"run_id": run_id} for run_id in ids]
        output.print_json(facts[0] if len(facts) == 1 else facts)
    else:
        print("\n".join(ids))
    return 0
