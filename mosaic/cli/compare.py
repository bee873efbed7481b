"""`mosaic compare`: configurations against each other, over their seeds."""

from __future__ import annotations

from collections.abc import Sequence

import click

from mosaic.cli import output
from mosaic.cli.options import complete_runs, json_option
from mosaic.client import TrainerClient
from mosaic.client.experiments import find_experiment
from mosaic.curves.names import RETURN, TAGS
from mosaic.errors import InvalidArgumentError
from mosaic.experiments.summary import MARKS
from mosaic.statistics import tables
from mosaic.statistics.comparison import Question
from mosaic.statistics.results import Comparison


@click.command()
@click.argument("runs", metavar="RUNS…", nargs=-1, shell_complete=complete_runs)
@click.option("--text", help="Compare all runs that match, as in `mosaic runs --text`.")
@click.option("--metric", default=TAGS[RETURN], show_default=True, help="Curve to compare.")
@click.option(
    "--at", type=click.IntRange(0), help="Read the values at this step (default: the end)."
)
@click.option("--target", type=float, help="Also print the steps needed to reach this value.")
@click.option("--minimize", is_flag=True, help="Lower is better.")
@click.option(
    "--scale",
    "scales",
    metavar="ENV=LOW..HIGH",
    multiple=True,
    help="Scores that count as 0 and 1 (default: lowest and highest of the comparison).",
)
@click.option(
    "--stat",
    "stats",
    multiple=True,
    type=click.Choice(tables.STATS),
    help="What to print (repeatable; default: all but median and profile).",
)
@click.option("--latex", is_flag=True, help="Print a LaTeX table.")
@json_option
def compare(
    runs: tuple[str, ...],
    text: str | None,
    metric: str,
    at: int | None,
    target: float | None,
    minimize: bool,
    scales: tuple[str, ...],
    stats: tuple[str, ...],
    latex: bool,
    as_json: bool,
) -> int:
    """Compare configurations over their seeds.

    RUNS are runs, experiment=NAME, evaluation=NAME or sweep=ID. They are grouped by
    configuration: those that differ in nothing but the seed belong together.
    Intervals are 95 % bootstrap intervals over seeds, never over episodes.
    """
    from mosaic.client.comparing import compare_runs

    question = Question(
        metric=metric,
        at=at,
        target=target,
        higher_is_better=not minimize,
        scale=dict(map(_read_scale, scales)),
    )
    with TrainerClient.connect() as trainer:
        chosen = [run_id for run in runs for run_id in _expanded(trainer, run)]
        chosen += _matching(trainer, text) if text else ()
        if not chosen:
            raise click.UsageError("name the runs to compare, or find them with --text")
        found = compare_runs(trainer, chosen, question)
    shown = stats or tables.USUAL
    if as_json:
        output.print_json(found)
    elif latex:
        print(tables.latex(found, shown))
    else:
        _print(found, shown)
    return 0


def _expanded(trainer: TrainerClient, run: str) -> tuple[str, ...]:
    """The runs of `experiment=NAME` and the like; any other word is a run itself."""
    kind, equals, name = run.partition("=")
    if not equals or kind not in MARKS.values():
        return (run,)
    return find_experiment(trainer, name, kind)[0].run_ids


def _matching(trainer: TrainerClient, text: str) -> list[str]:
    """The ids of all runs that match, however many pages they are."""
    ids: list[str] = []
    token = ""
    while True:
        records, token, _ = trainer.list_runs(text=text, page_size=500, page_token=token)
        ids += [record.run_id for record in records]
        if not token:
            break
    if not ids:
        raise InvalidArgumentError(f"no run matches {text!r}; `mosaic runs` lists what there is")
    return ids


def _read_scale(text: str) -> tuple[str, tuple[float, float]]:
    env_id, _, ends = text.rpartition("=")
    try:
        low, high = map(float, ends.split(".."))
    except ValueError:
        raise click.UsageError(
            f"{text!r} is no scale; write ENV=LOW..HIGH, for example CartPole-v1=0..500"
        ) from None
    if not env_id or not low < high:
        raise click.UsageError(f"in {text!r} LOW must be below HIGH, after ENV=")
    return env_id, (low, high)


# ------------------------------------------------------------ for people


def _print(found: Comparison, stats: Sequence[str]) -> None:
    if found.cells:
        output.print_table(
            tables.columns(found, stats), [tables.row(cell, found, stats) for cell in found.cells]
        )
    if found.overall:
        _section("All environments, scores between 0 and 1 (IQM, mean, optimality gap)")
        output.print_table(
            tables.OVERALL_COLUMNS, [tables.overall_row(one) for one in found.overall]
        )
    if found.pairs and "improvement" in stats:
        _section("Probability that a run of the first is better than one of the second")
        output.print_table(tables.PAIR_COLUMNS, [tables.pair_row(pair) for pair in found.pairs])
    if found.profiles and "profile" in stats:
        _section("Share of runs above a score")
        targets = found.profiles[0].targets
        output.print_table(
            ("GROUP", *(output.score(target) for target in targets)),
            [(one.group, *(f"{share:.2f}" for share in one.shares)) for one in found.profiles],
        )
    for note in found.notes:
        output.say(f"note: {note}")


def _section(title: str) -> None:
    output.say("")
    output.say(title)
