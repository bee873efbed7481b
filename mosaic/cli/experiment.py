"""`mosaic experiment`: configurations × seeds as one thing."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypedDict, Unpack

import click

from mosaic.cli import output
from mosaic.cli.building import TrainOptions
from mosaic.cli.experiment_file import ExperimentSpec, plan_of, read_spec
from mosaic.cli.options import json_option, site_option
from mosaic.client import TrainerClient, experiments
from mosaic.client.archives import SUFFIX
from mosaic.experiments.plan import ExperimentPlan
from mosaic.experiments.summary import ExperimentRecord
from mosaic.records import RunRecord
from mosaic.sweep.space import SYNTAX

# What is done with one run, by a client that is connected.
Act = Callable[[TrainerClient], Callable[[str], object]]
_COLUMNS = ("EXPERIMENT", "KIND", "RUNS", "DONE", "RUNNING", "QUEUED", "FAILED", "PROGRESS", "ETA")


class _Settings(TypedDict):
    """What `experiment run` is given besides options that every algorithm has."""

    algorithms: Sequence[str]
    environments: Sequence[str]
    grid: Sequence[str]
    seeds: int
    seed: int
    total_timesteps: float | None
    worker: str
    priority: int
    tags: Sequence[str]
    notes: str
    cpus: int
    gpus: int
    memory_mb: int | None
    max_minutes: float | None
    site: str | None
    wandb: bool


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def experiment() -> None:
    """Run configurations × seeds × environments × algorithms as one experiment.

    \b
    mosaic experiment run lr-study --algo ppo --env-id CartPole-v1 --env-id Acrobot-v1 \\
        --param learning-rate=1e-3,3e-4 --seeds 5 --total-timesteps 50000
    mosaic experiment show lr-study
    mosaic compare experiment=lr-study
    """


@experiment.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    epilog="Any other flag goes to the algorithms, the same for all runs: --num-envs 8",
)
@click.argument("target", metavar="NAME|FILE.toml")
@click.option("--algo", "algorithms", multiple=True, help="Algorithm (repeatable).")
@click.option("--env-id", "environments", multiple=True, help="Environment (repeatable).")
@click.option("--param", "grid", multiple=True, metavar="NAME=VALUES", help=f"Vary: {SYNTAX}.")
@click.option("--seeds", type=click.IntRange(1), default=5, show_default=True,
              help="Seeds of each configuration.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="First seed.")
@click.option("--total-timesteps", type=float, help="Steps to train each run, e.g. 1e6.")
@click.option("--worker", default="", help="Worker to use, if several have an algorithm.")
@click.option("--priority", type=int, default=0, help="Runs with a higher priority start first.")
@click.option("--tag", "tags", multiple=True, help="Tag for all runs (repeatable).")
@click.option("--notes", default="", help="Notes.")
@click.option("--cpus", type=click.IntRange(1), default=1, help="CPU slots per run.")
@click.option("--gpus", type=click.IntRange(0), default=0, help="GPUs per run.")
@click.option("--memory-mb", type=click.IntRange(1), help="Memory to reserve per run.")
@click.option("--max-minutes", type=float, help="Stop a run after this many minutes.")
@site_option
@click.option("--wandb", is_flag=True, help="Track with Weights & Biases.")
@click.option("--dry-run", is_flag=True, help="List the runs without starting anything.")
@click.option("--wait", is_flag=True, help="Wait until every run has ended.")
@json_option
@click.pass_context
def run(
    ctx: click.Context,
    /,
    target: str,
    dry_run: bool,
    wait: bool,
    as_json: bool,
    **settings: Unpack[_Settings],
) -> int:
    """Submit the runs of an experiment.

    The same experiment again submits only what is missing: after an interruption, or with more
    seeds.
    """
    spec = _spec(ctx, target, settings)
    plan = plan_of(spec)
    if dry_run:
        return _show_plan(plan, as_json)
    with TrainerClient.connect() as trainer:
        done = experiments.submit_experiment(trainer, plan, priority=spec.priority)
        if not as_json:
            there = f", {len(done.found)} were there" if done.found else ""
            output.say(f"experiment {plan.name}: {len(done.added)} runs submitted{there}")
        if wait:
            for run_id in (*done.found, *done.added):
                trainer.wait(run_id)
        return _show(trainer, plan.name, as_json)


def _spec(ctx: click.Context, target: str, settings: _Settings) -> ExperimentSpec:
    if not target.endswith(".toml"):
        first = settings["seed"]
        return ExperimentSpec(
            name=target,
            algorithms=settings["algorithms"],
            environments=settings["environments"],
            seeds=range(first, first + settings["seeds"]),
            grid=settings["grid"],
            settings=ctx.args,
            options=TrainOptions.of({**settings, "seed": None}),
            worker=settings["worker"],
            priority=settings["priority"],
        )
    given = [
        parameter.opts[0]
        for parameter in ctx.command.params
        if parameter.name not in ("target", "dry_run", "wait", "as_json")
        and ctx.get_parameter_source(str(parameter.name)) is click.core.ParameterSource.COMMANDLINE
    ]
    if given or ctx.args:
        raise click.UsageError(
            f"{[*given, *ctx.args][0]} cannot be combined with a file; write it into {target}"
        )
    return read_spec(Path(target))


def _show_plan(plan: ExperimentPlan, as_json: bool) -> int:
    names = [config.run_name for config in plan.runs()]
    if as_json:
        output.print_json({"name": plan.name, "runs": names})
        return 0
    for name in names:
        output.say(name)
    configurations, seeds = len(plan.configurations), len(plan.seeds)
    product = f"{configurations} configurations × {seeds} seeds = {len(names)} runs"
    output.say(f"{product}; nothing was started")
    return 0


@experiment.command("list")
@json_option
def list_(as_json: bool) -> int:
    """List experiments and sweeps, newest first."""
    with TrainerClient.connect() as trainer:
        found = experiments.list_experiments(trainer)
    if as_json:
        output.print_json({"experiments": found})
    elif found:
        output.print_table(_COLUMNS, [_row(one) for one in found])
    else:
        print("no experiments yet; start one: mosaic experiment run NAME --algo ppo")
    return 0


@experiment.command()
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> int:
    """Show an experiment and its runs."""
    with TrainerClient.connect() as trainer:
        return _show(trainer, name, as_json)


def _show(trainer: TrainerClient, name: str, as_json: bool) -> int:
    found, members = experiments.find_experiment(trainer, name)
    if as_json:
        output.print_json({**found.to_dict(), "runs": members})
        return 0
    output.print_table(_COLUMNS, [_row(found)])
    output.say("")
    output.print_table(
        ("RUN", "NAME", "STATE", "PROGRESS", "RETURN"),
        [
            [
                member.run_id,
                member.run_name,
                output.state_cell(member),
                f"{member.progress.fraction:.0%}",
                output.score(member.metrics.get("episodic_return")),
            ]
            for member in sorted(members, key=lambda member: member.run_id)
        ],
    )
    output.say(f"compare its configurations: mosaic compare {found.kind}={name}")
    return 0


def _row(found: ExperimentRecord) -> list[str]:
    counts = (len(found.run_ids), found.completed, found.running, found.queued, found.unsuccessful)
    return [
        found.name,
        found.kind,
        *map(str, counts),
        f"{found.fraction:.0%}",
        output.duration(found.eta_s),
    ]


@experiment.command("add-seeds")
@click.argument("name")
@click.argument("count", type=click.IntRange(1, 1000))
@json_option
def add_seeds(name: str, count: int, as_json: bool) -> int:
    """Train every configuration of an experiment with COUNT more seeds."""
    with TrainerClient.connect() as trainer:
        added = experiments.add_seeds(trainer, name, count)
    if as_json:
        output.print_json({"added": added})
    else:
        output.say(f"experiment {name}: {len(added)} runs submitted")
    return 0


@experiment.command()
@click.argument("name")
@click.option("--episodes", type=click.IntRange(1), default=20, show_default=True,
              help="Episodes of each policy.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True,
              help="Seed of the evaluations, the same for all.")  # fmt: skip
@click.option("--video", is_flag=True, help="Capture videos.")
@click.option("--wait", is_flag=True, help="Wait until every evaluation has ended.")
@json_option
def evaluate(name: str, episodes: int, seed: int, video: bool, wait: bool, as_json: bool) -> int:
    """Evaluate the newest policy of every run."""
    with TrainerClient.connect() as trainer:
        ids = experiments.evaluate_experiment(
            trainer, name, episodes=episodes, seed=seed, video=video
        )
        for run_id in ids if wait else ():
            trainer.wait(run_id)
    if as_json:
        output.print_json({"evaluations": ids})
    else:
        output.say(f"experiment {name}: {len(ids)} evaluations submitted")
        output.say(f"compare them: mosaic compare evaluation={name}")
    return 0


@experiment.command()
@click.argument("name")
def pause(name: str) -> int:
    """Pause every running run."""
    return _each(name, "paused", lambda trainer: trainer.pause, lambda run: run.is_running)


@experiment.command()
@click.argument("name")
def resume(name: str) -> int:
    """Resume every run that is paused."""
    return _each(name, "resumed", lambda trainer: trainer.resume, lambda run: run.is_paused)


@experiment.command()
@click.argument("name")
def cancel(name: str) -> int:
    """Cancel every run that has not ended, waiting ones first."""
    return _each(name, "cancelled", lambda trainer: trainer.cancel, lambda run: run.live)


@experiment.command()
@click.argument("name")
@click.argument("priority", type=int)
def priority(name: str, priority: int) -> int:
    """Change the priority of waiting runs; higher starts first."""

    def act(trainer: TrainerClient) -> Callable[[str], object]:
        return lambda run_id: trainer.update(run_id, priority=priority)

    return _each(name, f"have priority {priority}", act, lambda run: run.live)


@experiment.command()
@click.argument("name")
def delete(name: str) -> int:
    """Move an ended experiment to the trash; `mosaic restore` brings single runs back."""
    with TrainerClient.connect() as trainer:
        found, members = experiments.find_experiment(trainer, name)
        if not found.ended:
            live = found.running + found.queued
            raise click.UsageError(
                f"{live} runs of {name} have not ended; first: mosaic experiment cancel {name}"
            )
        count = experiments.for_each(members, lambda run: run.ended, trainer.delete)
    output.say(f"{count} of {len(members)} runs moved to the trash")
    return 0


@experiment.command()
@click.argument("name")
@click.option(
    "--output", "-o", "target", type=click.Path(path_type=Path, dir_okay=False),
    help=f"File to write (default: NAME{SUFFIX}).",
)  # fmt: skip
@click.option("--checkpoints/--no-checkpoints", default=True, help="Include checkpoints.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@json_option
def export(name: str, target: Path | None, checkpoints: bool, force: bool, as_json: bool) -> int:
    """Export the ended runs of an experiment to one archive."""
    with TrainerClient.connect() as trainer:
        _, members = experiments.find_experiment(trainer, name)
        ended = [run.run_id for run in members if run.ended]
        if not ended:
            raise click.UsageError(f"no run of {name} has ended")
        path = (target or Path(name + SUFFIX)).absolute()
        done = trainer.export_runs(ended, path, checkpoints=checkpoints, overwrite=force)
    if as_json:
        output.print_json(done)
    else:
        live = len(members) - len(ended)
        left = f"; {live} runs have not ended and are not in it" if live else ""
        output.say(f"{len(ended)} runs in {path}{left}")
    return 0


def _each(name: str, done: str, act: Act, fits: Callable[[RunRecord], bool]) -> int:
    with TrainerClient.connect() as trainer:
        _, members = experiments.find_experiment(trainer, name)
        # Runs that wait come first: else one would start in the place of one that was stopped.
        ordered: Sequence[RunRecord] = sorted(members, key=lambda run: bool(run.slots))
        count = experiments.for_each(ordered, fits, act(trainer))
    output.say(f"{count} of {len(members)} runs {done}")
    return 0
