"""Ratings from games between agents: Elo with intervals, and teams where all want the same. Pure.

A rating is the most likely one given all games at once, not one after the other: the order in
which games were played changes nothing. One drawn game against each opponent is added, so that an
agent that has won every game still has a rating.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mosaic.statistics.aggregates import Floats
from mosaic.statistics.episodes import mean_interval
from mosaic.statistics.intervals import Interval

MEAN_RATING = 1000.0
_SCALE = 400 / math.log(10)
_ROUNDS = 200
_RESAMPLES = 500
_CHANCES_SEED = 20
_FEWEST_GAMES = 3


@dataclass(frozen=True)
class TableGame:
    """One game at a table.

    Attributes:
        seats: The agents, in the order of the seats.
        scores: What each of them got.
        run_id: The run in which it can be seen again.
        number: Its number in that run.
        cooperative: Whether all wanted the same.
    """

    seats: tuple[str, ...]
    scores: tuple[float, ...]
    seed: int
    run_id: str = ""
    number: int = 0
    cooperative: bool = False


@dataclass(frozen=True)
class Rating:
    """One agent after a round robin."""

    agent: str
    elo: float
    interval: Interval | None
    games: int
    won: int
    drawn: int
    lost: int


@dataclass(frozen=True)
class Teammate:
    """One agent in a task that all share.

    Attributes:
        partners: The mean return with each partner.
    """

    agent: str
    games: int
    mean_return: float
    interval: Interval | None
    partners: dict[str, float]


def ratings(agents: Sequence[str], games: Sequence[TableGame]) -> list[Rating]:
    """The Elo ratings of agents, the best first; their mean is 1000."""
    # Drawing games again must not depend on the order in which they ended.
    found = _results(agents, sorted(games, key=lambda game: (game.seats, game.seed, game.scores)))
    rated = _fit(found, np.ones((1, len(games))))[0]
    rows = [
        Rating(agent, float(rated[at]), ends, *_counts(found, at))
        for at, (agent, ends) in enumerate(zip(agents, _intervals(found), strict=True))
    ]
    return sorted(rows, key=lambda row: -row.elo)


def teammates(agents: Sequence[str], games: Sequence[TableGame]) -> list[Teammate]:
    """How well each agent does with each other one, the best first."""
    rows = []
    for agent in agents:
        mine = [game for game in games if agent in game.seats]
        returns = [float(np.mean(game.scores)) for game in mine]
        others = {
            other: [float(np.mean(game.scores)) for game in mine if other in game.seats]
            for other in agents
            if other != agent
        }
        rows.append(
            Teammate(
                agent,
                len(mine),
                float(np.mean(returns)) if returns else math.nan,
                mean_interval(returns) if returns else None,
                {other: float(np.mean(with_it)) for other, with_it in others.items() if with_it},
            )
        )
    return sorted(rows, key=lambda row: -row.mean_return)


@dataclass(frozen=True)
class _Results:
    """Games as arrays: who sat where, one column an agent, and the points of the first seat."""

    first: Floats
    second: Floats
    points: Floats


def _results(agents: Sequence[str], games: Sequence[TableGame]) -> _Results:
    """A win is one point, a draw a half."""
    seats = np.eye(len(agents))
    leads = np.array([game.scores[0] - game.scores[1] for game in games], float)
    return _Results(
        seats[[agents.index(game.seats[0]) for game in games]].reshape(-1, len(agents)),
        seats[[agents.index(game.seats[1]) for game in games]].reshape(-1, len(agents)),
        np.where(leads == 0, 0.5, leads > 0).astype(float),
    )


def _fit(found: _Results, often: Floats) -> Floats:
    """The ratings under which the results are most likely, by minorisation (Hunter 2004).

    Args:
        found: The games.
        often: How often each game counts; one row for each set of ratings.
    """
    count = found.first.shape[1]
    won = (often * found.points) @ found.first + (often * (1 - found.points)) @ found.second
    met = np.einsum("bg,gi,gj->bij", often, found.first, found.second)
    # One drawn game against each opponent keeps every rating finite.
    won = won + 0.5 * (count - 1)
    met = met + met.swapaxes(1, 2) + 1 - np.eye(count)
    strength = np.ones_like(won)
    for _ in range(_ROUNDS):
        strength = won / (met / (strength[:, :, None] + strength[:, None, :])).sum(2)
        strength = strength / np.exp(np.log(strength).mean(1, keepdims=True))
    rated: Floats = MEAN_RATING + _SCALE * np.log(strength)
    return rated


def _intervals(found: _Results) -> list[Interval | None]:
    """95 % bootstrap intervals over games; the same games give the same intervals."""
    games, count = found.first.shape
    if games < _FEWEST_GAMES:
        return [None] * count
    chance = np.random.default_rng(_CHANCES_SEED)
    often = chance.multinomial(games, np.full(games, 1 / games), size=_RESAMPLES).astype(float)
    low, high = np.quantile(_fit(found, often), [0.025, 0.975], axis=0)
    return [Interval(float(a), float(b)) for a, b in zip(low, high, strict=True)]


def _counts(found: _Results, at: int) -> tuple[int, int, int, int]:
    mine = np.concatenate(
        [found.points[found.first[:, at] == 1], 1 - found.points[found.second[:, at] == 1]]
    )
    won, drawn = int((mine == 1).sum()), int((mine == 0.5).sum())
    return len(mine), won, drawn, len(mine) - won - drawn
