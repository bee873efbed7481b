"""`mosaic arena`: agents of different kinds on the same seeds, in one table."""

from collections.abc import Sequence
from dataclasses import asdict

import click

from mosaic.arena.players import Match, collect, read_agents, start
from mosaic.arena.table import Row, compare
from mosaic.cli import output
from mosaic.cli.options import json_option
from mosaic.client import TrainerClient
from mosaic.statistics.intervals import Interval

_COLUMNS = (
    "AGENT",
    "EPISODES",
    "SUCCESS",
    "95 %",
    "RETURN",
    "95 %",
    "LEAD",
    "95 %",
    "TOKENS/SOLVED",
    "$/SOLVED",
    "MS/STEP",
    "RUN",
)


@click.command()
@click.argument("env_id")
@click.option(
    "--agents",
    required=True,
    help="Names separated by commas: run:ID, llm:MODEL, human, bot, random. The first is the "
    "baseline.",
)
@click.option(
    "--seeds", type=click.IntRange(1), default=50, show_default=True, help="Episodes per agent."
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="First seed.",
)
@click.option("--max-steps", type=click.IntRange(1), help="Cut episodes after this many steps.")
@json_option
def arena(
    env_id: str, agents: str, seeds: int, seed: int, max_steps: int | None, as_json: bool
) -> int:
    """Compare agents in ENV_ID on the same seeds.

    LEAD is the mean difference of an agent's return to that of the first one, seed by seed.
    """
    match = Match(env_id, seed, seeds, max_steps or 0)
    named = read_agents(agents)
    with TrainerClient.connect() as trainer:
        runs = [start(trainer, agent, match) for agent in named]
        # All are queued before the first is awaited: as many play at once as there are slots.
        ended = [trainer.wait(run.run_id) for run in runs]
        played = [
            collect(trainer, agent, run, match) for agent, run in zip(named, ended, strict=True)
        ]
    rows = compare(env_id, played)
    if as_json:
        output.print_json(
            {
                "env_id": env_id,
                "seed": seed,
                "seeds": seeds,
                "agents": [_document(row) for row in rows],
            }
        )
    else:
        output.print_table(_COLUMNS, [_cells(row) for row in rows])
    return 0


def _document(row: Row) -> dict[str, object]:
    # A named tuple would become a list of numbers without names.
    return {**asdict(row), "lead": row.lead._asdict() if row.lead else None}


def _cells(row: Row) -> Sequence[str]:
    return [
        row.agent,
        str(row.episodes),
        "-" if row.success is None else f"{row.success:.0%}",
        _share(row.success_interval),
        output.score(row.mean_return),
        _between(row.return_interval),
        "-" if row.lead is None else f"{row.lead.mean:+.2f} on {row.lead.seeds}",
        _between(row.lead.interval if row.lead else None),
        output.number(row.tokens_per_solved, 0),
        output.number(row.cost_per_solved, 4),
        output.number(row.milliseconds_per_step),
        row.run_id,
    ]


def _share(interval: Interval | None) -> str:
    return f"{interval.low:.0%} to {interval.high:.0%}" if interval else "-"


def _between(interval: Interval | None) -> str:
    return f"{interval.low:.2f} to {interval.high:.2f}" if interval else "-"
