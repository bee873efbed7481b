"""`mosaic arena`: agents of different kinds on the same seeds, in one table."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import click

from mosaic.arena import words
from mosaic.arena.elo import TableGame, ratings, teammates
from mosaic.arena.match import Match, read_agents
from mosaic.arena.table import Row, compare
from mosaic.cli import output
from mosaic.cli.options import json_option
from mosaic.client import TrainerClient
from mosaic.client.arena import collect, start_all
from mosaic.client.tables import (
    Pair,
    check_people_have_played,
    has_tables,
    seated,
    start_round,
    wait_for_games,
)
from mosaic.records import RunRecord

_COLUMNS = (*(name.upper() for name in words.COLUMNS), "RUN")


@click.command()
@click.argument("env_id")
@click.option(
    "--agents",
    required=True,
    help="Names separated by commas: run:ID, llm:MODEL, human, bdi, bot, random. The first is the "
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

    LEAD is the mean difference of an agent's return to that of the first one, seed by seed. In
    games for several players every two agents meet, twice on each seed, and ELO rates them; where
    all players want the same, the table has what each agent reaches with each partner.
    """
    match = Match(env_id, seed, seeds, max_steps or 0)
    named = read_agents(agents)
    if has_tables(env_id):
        return _round_robin(match, named, as_json)
    with TrainerClient.connect() as trainer:
        runs = start_all(trainer, named, match)
        # All are queued before the first is awaited: as many play at once as there are slots.
        ended = {agent: trainer.wait(run.run_id) for agent, run in runs.items()}
        played = [collect(trainer, agent, run, match) for agent, run in ended.items()]
    rows = compare(env_id, played)
    if as_json:
        _print_json(match, [_document(row) for row in rows])
    else:
        output.print_table(_COLUMNS, [[*words.cells(row), row.run_id] for row in rows])
    return 0


def _round_robin(match: Match, agents: Sequence[str], as_json: bool) -> int:
    """Every two agents at one table; ratings, or returns where all want the same."""
    with TrainerClient.connect() as trainer:
        agents = seated(trainer, agents)
        # Before anyone plays: without a person's games the round is not the one asked for.
        by_hand = check_people_have_played(trainer, agents, match)
        runs = start_round(trainer, agents, match)
        games = wait_for_games(trainer, runs)
    games += [game for played in by_hand.values() for game in played]
    together = any(game.cooperative for game in games)
    rows = teammates(agents, games) if together else ratings(agents, games)
    if as_json:
        _print_json(match, [asdict(row) for row in rows], {"runs": _run_ids(runs, by_hand)})
        return 0
    columns = words.TEAM_COLUMNS if together else words.RATING_COLUMNS
    output.print_table([name.upper() for name in columns], [words.standing(row) for row in rows])
    for pair, ids in _run_ids(runs, by_hand).items():
        output.say(f"{pair}: {ids}")
    return 0


def _run_ids(
    runs: Mapping[Pair, RunRecord], by_hand: Mapping[Pair, Sequence[TableGame]]
) -> dict[str, str]:
    """Where the games of every two agents can be seen again; a person's may be in several runs."""
    found = {pair: [run.run_id] for pair, run in runs.items()}
    found |= {pair: [game.run_id for game in games] for pair, games in by_hand.items()}
    return {" against ".join(pair): ", ".join(dict.fromkeys(ids)) for pair, ids in found.items()}


def _print_json(
    match: Match, agents: Sequence[Mapping[str, object]], more: Mapping[str, object] | None = None
) -> None:
    facts = {"env_id": match.env_id, "seed": match.seed, "seeds": match.episodes}
    output.print_json({**facts, "agents": list(agents), **(more or {})})


def _document(row: Row) -> dict[str, object]:
    # A named tuple would become a list of numbers without names.
    return {**asdict(row), "lead": row.lead._asdict() if row.lead else None}
