"""`mosaic sweep`: Optuna proposes settings, each trial is an ordinary run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from mosaic.cli import output
from mosaic.cli.algorithm_help import AlgorithmCommand
from mosaic.cli.building import TrainOptions, fresh_config, own_flags
from mosaic.cli.main import EXIT_FAILED, EXIT_INTERRUPTED, exit_code
from mosaic.cli.options import (
    STEPS,
    complete_algorithms,
    complete_environments,
    json_option,
    site_option,
)
from mosaic.cli.sweep_results import (
    SHOWN_TRIALS,
    TOP,
    WORDS,
    about_sweep,
    cell,
    confirm_study,
    directory_of,
    print_search,
)
from mosaic.client import TrainerClient
from mosaic.curves.members import VMAP_SWEEP
from mosaic.curves.names import LENGTH, RETURN, TAGS
from mosaic.errors import InvalidConfigError, MosaicError, Problem
from mosaic.sweep.objective import DEFAULT_TAG, Objective, read_objective
from mosaic.sweep.plan import PRUNERS, SAMPLERS, SweepPlan
from mosaic.sweep.space import SYNTAX, Choices, Point, Space, grid, read_space
from mosaic.workers.algorithms import Algorithm, find_algorithm

if TYPE_CHECKING:
    from mosaic.records import RunRecord
    from mosaic.sweep.study import SweepStudy

_TAG = "sweep="
# What may be given with --continue.
_CAN_CHANGE = ("sweep_id", "trials", "parallel", "as_json", "algo", "top", "fresh")


class _Settings(TypedDict):
    """The options of a sweep, and those that every algorithm has."""

    params: Sequence[str]
    trials: int | None
    parallel: int | None
    sampler: str
    pruner: str
    prune_after: int
    objective: str
    minimize: bool
    seeds: int
    race: bool
    together: bool
    top: int
    fresh: int
    episodes: int
    dry_run: bool
    worker: str
    env_id: str | None
    total_timesteps: float | None
    seed: int | None
    name: str
    tags: Sequence[str]
    notes: str
    cpus: int
    gpus: int
    memory_mb: int | None
    max_minutes: float | None
    site: str | None
    wandb: bool


@click.command(
    cls=AlgorithmCommand,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    epilog="Any other flag is the script's own and the same for all trials: --num-envs 8",
)
@click.argument("algo", required=False, shell_complete=complete_algorithms)
@click.option("--param", "params", multiple=True, metavar="NAME=VALUES", help=f"{SYNTAX}.")
@click.option("--trials", type=click.IntRange(1), help="Number of trials.  [default: 20]")
@click.option(
    "--parallel", type=click.IntRange(1), help="Trials to run at the same time.  [default: 1]"
)
@click.option("--sampler", type=click.Choice(SAMPLERS), default="tpe", show_default=True)
@click.option("--pruner", type=click.Choice(PRUNERS), default="median", show_default=True)
@click.option(
    "--prune-after", type=click.IntRange(1), default=5, show_default=True,
    help="Number of finished trials before any trial is pruned.",
)  # fmt: skip
@click.option(
    "--objective", default=DEFAULT_TAG, show_default=True,
    help="Scalar to optimise (TAG, TAG:last, TAG:mean, TAG:max), or eval for the final policy.",
)  # fmt: skip
@click.option("--minimize", is_flag=True, help="Minimise the objective.")
@click.option("--seeds", type=click.IntRange(1, 100), default=1, show_default=True,
              help="Runs with different seeds per trial; their mean counts.")  # fmt: skip
@click.option("--race", is_flag=True,
              help="Train a trial's seeds one by one; stop at those that fall behind.")  # fmt: skip
@click.option("--vmap-sweep", "together", is_flag=True,
              help="Train all trials at once in one program (_ondevice algorithms).")  # fmt: skip
@click.option("--confirm", "top", type=click.IntRange(0), default=0, show_default=True,
              help="Train this many of the best trials again with fresh seeds.")  # fmt: skip
@click.option("--fresh", type=click.IntRange(1, 100), default=5, show_default=True,
              help="Fresh seeds for --confirm, `confirm` and `best`.")  # fmt: skip
@click.option("--episodes", type=click.IntRange(1), default=20, show_default=True,
              help="Episodes per evaluation.")  # fmt: skip
@click.option("--continue", "sweep_id", metavar="ID", help="Continue an interrupted sweep.")
@click.option(
    "--dry-run", is_flag=True, help="Print the first proposals without starting anything."
)
@click.option("--worker", default="", help="Worker to use, if several have ALGO.")
@click.option("--env-id", help="Environment (default: the algorithm's).",
              shell_complete=complete_environments)  # fmt: skip
@click.option("--total-timesteps", type=STEPS, help="Steps to train each run, e.g. 1e6.")
@click.option("--seed", type=click.IntRange(0), help="Seed of the first run of each trial.")
@click.option("--name", default="", help="Name of the runs.")
@click.option("--tag", "tags", multiple=True, help="Tag for all runs (repeatable).")
@click.option("--notes", default="", help="Notes.")
@click.option(
    "--cpus", type=click.IntRange(1), default=1, show_default=True, help="CPU slots per run."
)
@click.option("--gpus", type=click.IntRange(0), default=0, show_default=True, help="GPUs per run.")
@click.option("--memory-mb", type=click.IntRange(1), help="Memory to reserve per run.")
@click.option("--max-minutes", type=float, help="Stop a run after this many minutes.")
@site_option
@click.option("--wandb", is_flag=True, help="Track with Weights & Biases.")
@json_option
@click.pass_context
def sweep(
    ctx: click.Context,
    /,
    algo: str | None,
    sweep_id: str | None,
    as_json: bool,
    **settings: Unpack[_Settings],
) -> int:
    """Search for good hyperparameters of ALGO. Every trial is a run.

    \b
    mosaic sweep ppo --env-id CartPole-v1 --total-timesteps 50000 \\
        --param learning-rate=log:1e-4..1e-2 --param num-steps=64,128,256 --parallel 2

    Ctrl-C stops proposing; running trials continue, and --continue picks them up again.

    \b
    mosaic sweep list          the sweeps of this home
    mosaic sweep show ID       trials, importance of parameters, confirmation
    mosaic sweep confirm ID    the best trials again, with seeds the search has not seen
    mosaic sweep best ID       train the best settings with five fresh seeds
    mosaic sweep stop ID       start no more trials
    """
    if sweep_id:
        return _continue(ctx, algo, sweep_id, settings, as_json)
    if algo == "list":
        return _list_sweeps(as_json)
    if algo in WORDS:
        _need_optuna()
        return about_sweep(algo, ctx.args, settings["top"] or TOP, settings["fresh"], as_json)
    if not algo:
        raise click.UsageError("name an algorithm, or a sweep with --continue ID")
    plan = _plan(ctx, algo, settings)
    _need_optuna()
    from mosaic.sweep import runner, study

    if settings["dry_run"]:
        return _show_proposals(plan, study.propose(plan), as_json)
    with TrainerClient.connect() as trainer:
        begun = runner.begin(trainer, plan)
        return _drive(trainer, begun, as_json, settings["top"], settings["fresh"])


def _plan(ctx: click.Context, algo: str, settings: _Settings) -> SweepPlan:
    algorithm = find_algorithm(algo, settings["worker"])
    flags = own_flags(ctx.args, algorithm, algo)
    space = read_space(settings["params"], algorithm.arguments, algo)
    both = sorted(flags.keys() & space.keys())
    if both:
        message = f"{both[0]} is both varied (--param) and fixed (--{both[0].replace('_', '-')})"
        raise InvalidConfigError([Problem("", "CLI103", message)])
    if settings["race"] and (settings["seeds"] < 2 or settings["pruner"] == "none"):
        message = "--race needs --seeds of at least 2 and the median pruner: it drops seeds by it"
        raise InvalidConfigError([Problem("", "CLI103", message)])
    objective = read_objective(settings["objective"])
    if settings["together"]:
        _check_together(algorithm, algo, space, settings, objective)
    config = fresh_config(algorithm, TrainOptions.of(settings), flags)
    trials = settings["trials"] or 20
    # Lists of values have nothing to draw from: all of them are tried.
    lists = all(isinstance(dimension, Choices) for dimension in space.values())
    sampler = "grid" if settings["together"] and lists else settings["sampler"]
    if sampler == "grid":
        points = len(grid(space))
        # A grid is finite: without --trials all of it, never more.
        trials = min(settings["trials"] or points, points)
    return SweepPlan(
        config=config,
        nested=algorithm.facts is not None,
        space=space,
        trials=trials,
        parallel=settings["parallel"] or 1,
        sampler=sampler,
        pruner=settings["pruner"],
        objective=objective,
        seeds=settings["seeds"],
        race=settings["race"],
        maximise=not settings["minimize"],
        prune_after=settings["prune_after"],
        episodes=settings["episodes"],
        together=settings["together"],
    )


def _check_together(
    algorithm: Algorithm, algo: str, space: Space, settings: _Settings, objective: Objective
) -> None:
    """Refuse what one program for all trials cannot do.

    Raises:
        InvalidConfigError: With every problem.
    """
    kinds = algorithm.kinds or {}
    reasons = [
        f"{name} is no real number, so it needs a program of its own for each value"
        for name in space
        if kinds.get(name) != "float"
    ]
    if VMAP_SWEEP not in kinds:
        reasons.append(f"{algo} is not compiled with its environments; use an _ondevice algorithm")
    if settings["race"] or settings["parallel"]:
        given = "--race" if settings["race"] else "--parallel"
        reasons.append(f"{given} has no meaning: all trials begin and end together")
    if objective.tag not in (TAGS[RETURN], TAGS[LENGTH]):
        reasons.append(f"only {TAGS[RETURN]} and {TAGS[LENGTH]} are stored for each trial")
    if reasons:
        problems = [Problem("--vmap-sweep", "CLI103", reason) for reason in reasons]
        raise InvalidConfigError(problems)


def _continue(
    ctx: click.Context, algo: str | None, sweep_id: str, settings: _Settings, as_json: bool
) -> int:
    # Refused, not ignored: trials under other settings could not be compared with the earlier ones.
    # Click has filled in defaults, so what was typed is found by its source.
    given = [
        parameter.opts[0]
        for parameter in ctx.command.params
        if parameter.name not in _CAN_CHANGE
        and ctx.get_parameter_source(str(parameter.name)) is click.core.ParameterSource.COMMANDLINE
    ]
    extra = [*([algo] if algo else []), *given, *ctx.args]
    if extra:
        raise click.UsageError(
            f"--continue keeps the sweep as it was; only --trials and --parallel can change, and "
            f"--confirm be added, not {extra[0]}"
        )
    _need_optuna()
    from mosaic.sweep.study import SweepStudy

    asked = {"trials": settings["trials"], "parallel": settings["parallel"]}
    changes = {name: count for name, count in asked.items() if count}
    with TrainerClient.connect() as trainer:
        run_dir = directory_of(trainer, sweep_id)
        study = SweepStudy.load(run_dir, **changes)
        if study.plan.together and changes:
            study.close()
            raise click.UsageError("the trials of one program are fixed; leave out --trials")
        return _drive(trainer, study, as_json, settings["top"], settings["fresh"])


def _list_sweeps(as_json: bool) -> int:
    """Every sweep of this home, newest first, found by the tags of its runs."""
    sweeps: dict[str, list[RunRecord]] = {}
    with TrainerClient.connect() as trainer:
        page = ""
        while True:
            runs, page, _ = trainer.list_runs(text=_TAG, page_size=500, page_token=page)
            for run in runs:
                for tag in run.tags:
                    if tag.startswith(_TAG):
                        sweeps.setdefault(tag.removeprefix(_TAG), []).append(run)
            if not page:
                break
    if as_json:
        output.print_json(
            [
                {"sweep_id": name, "runs": [run.run_id for run in runs]}
                for name, runs in sweeps.items()
            ]
        )
        return 0
    if not sweeps:
        print("no sweeps yet; start one: mosaic sweep ppo --param learning-rate=log:1e-4..1e-2")
        return 0
    rows = [
        [
            name,
            runs[-1].algo,
            runs[-1].env_id,
            str(len(runs)),
            str(sum(run.completed for run in runs)),
            str(sum(run.live for run in runs)),
            output.age(min(run.created_at for run in runs)),
        ]
        for name, runs in sweeps.items()
    ]
    output.print_table(("SWEEP", "ALGO", "ENV", "RUNS", "COMPLETED", "LIVE", "AGE"), rows)
    print("continue one: mosaic sweep --continue SWEEP")
    return 0


def _need_optuna() -> None:
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise MosaicError(
            "sweeps need Optuna; run: pip install -r requirements/extras/optuna.txt"
        ) from None


def _drive(trainer: TrainerClient, study: "SweepStudy", as_json: bool, top: int, fresh: int) -> int:
    from mosaic.sweep.runner import SweepRunner
    from mosaic.sweep.searched import search_of
    from mosaic.sweep.together import JointRunner

    def say(text: str) -> None:
        if not as_json:
            output.say(text)

    again = f"mosaic sweep --continue {study.sweep_id}"
    plan, code = study.plan, 0
    say(f"sweep {study.sweep_id}: {plan.trials} trials of {plan.subject}, {plan.objective}")
    try:
        driver = JointRunner if plan.together else SweepRunner
        driver(trainer, study, say).run()
        if top and study.best():
            confirm_study(trainer, study, say, top, fresh)
    except KeyboardInterrupt:
        say(f"\nstopped; running trials continue; continue the sweep: {again}")
        code = EXIT_INTERRUPTED
    except MosaicError as error:
        click.echo(f"mosaic: {error}\nrunning trials continue; then: {again}", err=True)
        code = exit_code(error)
    finally:
        # Read before the lock is released: another process may continue the sweep at once.
        found = search_of(study.facts(), study.sweep_id)
        study.close()
    if as_json or not code:
        print_search(found, as_json)
    return code or (0 if found.best else EXIT_FAILED)


def _show_proposals(plan: SweepPlan, proposals: list[Point], as_json: bool) -> int:
    if as_json:
        output.print_json({"trials": plan.trials, "proposals": proposals})
        return 0
    rows = [
        [str(at), *map(cell, params.values())] for at, params in enumerate(proposals[:SHOWN_TRIALS])
    ]
    output.print_table(("TRIAL", *map(str.upper, plan.space)), rows)
    first = f"the first {len(rows)} of {plan.trials} trials of {plan.subject}"
    output.say(f"{first}; nothing was started")
    output.say(f"the first one alone:\n{plan.train_command(proposals[0])}")
    return 0
