"""Several players at one table: board games and a shared hunt, with ratings."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from support.trainer import Trainer

from llm_worker.play.actions import Choices
from llm_worker.settings import Settings, table_problems
from llm_worker.table.bots import RULES, best_moves
from llm_worker.table.games import GAMES
from llm_worker.table.names import TABLE_GAMES
from llm_worker.table.world import TableWorld
from mosaic.arena.elo import TableGame, ratings, teammates
from mosaic.arena.match import Match
from mosaic.client.tables import games_so_far, start_round


def _game(first: str, second: str, lead: float) -> TableGame:
    return TableGame((first, second), (lead, -lead), 1)


def test_ratings_do_not_depend_on_the_order_of_games() -> None:
    """The better agent is first, 400 points are ten to one, and the order changes nothing."""
    games = [_game("a", "b", 1.0)] * 10 + [_game("b", "a", 1.0)] + [_game("b", "c", 0.0)] * 4
    rows = ratings(["a", "b", "c"], games)
    assert rows[0].agent == "a"
    assert rows == ratings(["a", "b", "c"], games[::-1])
    assert sum(row.elo for row in rows) == pytest.approx(3000)
    best = rows[0]
    assert (best.games, best.won, best.lost) == (11, 10, 1)
    assert best.interval is not None
    assert best.interval.low < best.elo < best.interval.high


def test_who_wins_everything_still_has_a_rating() -> None:
    """A clean sweep gives a finite lead; two games are too few for an interval."""
    first, second = ratings(["a", "b"], [_game("b", "a", 1.0)] * 2)
    assert (first.agent, first.interval) == ("b", None)
    assert 100 < first.elo - second.elo < 400


def test_in_a_shared_task_agents_are_rated_by_their_partners() -> None:
    """The return of a team counts for each of its members, partner by partner."""
    games = [
        TableGame(("a", "b"), (2.0, 2.0), 1, cooperative=True),
        TableGame(("a", "c"), (0.0, 0.0), 1, cooperative=True),
        TableGame(("b", "c"), (1.0, 1.0), 1, cooperative=True),
    ]
    rows = {row.agent: row for row in teammates(["a", "b", "c"], games)}
    assert rows["a"].partners == {"b": 2.0, "c": 0.0}
    assert (rows["b"].mean_return, rows["c"].mean_return) == (1.5, 0.5)


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        # Its own three in a line are completed, before the other's are stopped.
        (["......."] * 4 + ["OOO....", "XXX...."], [3]),
        (["......."] * 4 + [".......", ".OOOX.."], [0]),
    ],
)
def test_the_bot_wins_and_does_not_lose_in_one_move(rows: list[str], wanted: list[int]) -> None:
    """Connect four: it completes its own line, and blocks the other's."""
    signs = {"X": 1, "O": -1, ".": 0}
    stones = tuple(signs[sign] for row in rows for sign in row)
    assert best_moves(RULES["connect_four_v3"], stones) == wanted


def test_every_game_is_told_in_words_and_only_legal_moves_are_offered() -> None:
    """The same seed gives the same beginning; a full column is no move."""
    pytest.importorskip("pettingzoo")
    assert {name: game.seats for name, game in GAMES.items()} == TABLE_GAMES
    for env_id in TABLE_GAMES:
        world = TableWorld(env_id, 0, {}, frames=False)
        world.begin(3)
        first = world.text(), world.actions.listed()
        world.begin(3)
        assert (world.text(), world.actions.listed()) == first
        world.close()
    world = TableWorld("connect_four_v3", 0, {}, frames=False)
    world.begin(1)
    while 0 in dict(world.actions.legal):
        world.act(0)
    assert "column 1" not in world.actions.listed()
    assert isinstance(world.actions, Choices)
    assert world.actions.read("column 1") is None
    world.close()


@pytest.mark.parametrize(
    ("env_id", "players", "said"),
    [
        ("connect_four_v3", "bot", "different"),
        ("connect_four_v3", "bot,rundom", "random"),
        ("FrozenLake-v1", "bot,random", "one player"),
    ],
)
def test_who_cannot_play_is_refused(env_id: str, players: str, said: str) -> None:
    """One player alone, a name that is none, and players where there is one seat."""
    problems = table_problems(Settings(env_id=env_id, players=players))
    assert any(said in problem for problem in problems), problems


def test_a_round_robin_rates_different_kinds_of_agents(trainer: Trainer) -> None:
    """Bot, chance and a language model at one board: the bot is first; a pair repeats itself."""
    pytest.importorskip("pettingzoo")
    words = ["arena", "tictactoe_v3", "--agents", "random,bot,llm:embedded", "--seeds", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "mosaic", *words, "--json"],
        env=trainer.environment(MOSAIC_HOME=str(trainer.home.root)),
        capture_output=True,
        check=True,
    )
    table = json.loads(done.stdout)
    rows = {row["agent"]: row for row in table["agents"]}
    assert (table["agents"][0]["agent"], rows["bot"]["lost"]) == ("bot", 0)
    assert [row["games"] for row in rows.values()] == [8, 8, 8]
    assert len(table["runs"]) == 3
    client, match = trainer.client, Match("tictactoe_v3", 1, 2)
    again = trainer.ended(start_round(client, ["random", "bot"], match)["random", "bot"].run_id)
    before = games_so_far(client, table["runs"]["random against bot"])
    assert [replace(game, run_id="") for game in games_so_far(client, again.run_id)] == [
        replace(game, run_id="") for game in before
    ]
