"""The arena's table read from the daemon, off the GUI thread."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from mosaic.arena.elo import Rating, TableGame, Teammate, ratings, teammates
from mosaic.arena.match import HUMAN, Match
from mosaic.arena.table import Played, PlayedEpisode, Row, compare
from mosaic.client import TrainerClient
from mosaic.client.arena import so_far, start_all
from mosaic.client.tables import (
    games_of_people,
    games_so_far,
    has_tables,
    seated,
    start_round,
)

AGAINST = " against "


@dataclass(frozen=True)
class Standing:
    """How a match stands.

    Attributes:
        runs: The run of each agent; empty for `human`, whose games are looked for. Where several
            players sit at a table: the run of every two of them, empty for a person's.
        rated: The agents by their rating, where they met at a table.
    """

    match: Match
    runs: Mapping[str, str]
    played: tuple[Played, ...] = ()
    rows: tuple[Row, ...] = ()
    rated: tuple[Rating | Teammate, ...] = ()

    @property
    def at_tables(self) -> bool:
        """Whether the agents meet each other."""
        return any(AGAINST in name for name in self.runs)


def begin(client: TrainerClient, agents: Sequence[str], match: Match) -> Standing:
    """Start every agent; a person plays when a person likes to."""
    if has_tables(match.env_id):
        names = seated(client, agents)
        pairs = start_round(client, names, match)
        runs = {AGAINST.join(pair): run.run_id for pair, run in pairs.items()}
        by_hand = [pair for pair in combinations(names, 2) if HUMAN in pair]
        return Standing(match, {**runs, **{AGAINST.join(pair): "" for pair in by_hand}})
    started = start_all(client, [agent for agent in agents if agent != HUMAN], match)
    runs = {agent: started[agent].run_id if agent in started else "" for agent in agents}
    return Standing(match, runs)


def read(client: TrainerClient, before: Standing, agents: Sequence[str]) -> Standing:
    """The standing with the news of some agents; the others are as they were."""
    if before.at_tables:
        return _read_tables(client, before)
    known = {played.agent: played for played in before.played}
    for agent in agents:
        known[agent] = so_far(client, agent, before.runs[agent], before.match)
    played = tuple(known[agent] for agent in before.runs if agent in known)
    # The intervals draw thousands of samples: here, and not on the thread that paints.
    rows = tuple(compare(before.match.env_id, played))
    return Standing(before.match, before.runs, played, rows)


def missing(standing: Standing) -> tuple[str, int] | None:
    """What a person has not played yet: with whom, empty in games for one, and the first seed."""
    done: dict[str, set[int | None]] = {}
    for played in standing.played:
        done[played.agent] = {episode.seed for episode in played.episodes}
    for name in standing.runs:
        if HUMAN not in (pair := name.split(AGAINST)):
            continue
        # At a table a seed is done when it was played in both orders of the seats.
        ways = [name, AGAINST.join(reversed(pair))]
        for seed in standing.match.seeds:
            if any(seed not in done.get(way, ()) for way in ways):
                return next((one for one in pair if one != HUMAN), ""), seed
    return None


def _read_tables(client: TrainerClient, before: Standing) -> Standing:
    ids = [run_id for run_id in before.runs.values() if run_id]
    games = [game for run_id in ids for game in games_so_far(client, run_id)]
    agents = list(dict.fromkeys(name for pair in before.runs for name in pair.split(AGAINST)))
    for played in games_of_people(client, agents, before.match).values():
        games += played
    together = any(game.cooperative for game in games)
    rated = teammates(agents, games) if together else ratings(agents, games)
    return Standing(before.match, before.runs, _by_seats(games), (), tuple(rated if games else ()))


def _by_seats(games: Sequence[TableGame]) -> tuple[Played, ...]:
    """The games with one row for each order of the seats; the score is that of the first seat."""
    rows: dict[tuple[str, ...], list[PlayedEpisode]] = {}
    for game in games:
        episode = PlayedEpisode(game.seed, game.scores[0], 0, game.run_id, game.number)
        rows.setdefault(game.seats, []).append(episode)
    return tuple(
        Played(AGAINST.join(seats), episodes[0].run_id, episodes)
        for seats, episodes in rows.items()
    )
