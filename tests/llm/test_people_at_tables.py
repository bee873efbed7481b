"""People at tables for several players: seated at the keys, told their side, rated with others."""

import json
import subprocess
import sys

import pytest
from support.trainer import Trainer

from llm_worker.table.people import read_move
from llm_worker.table.world import TableWorld
from mosaic.arena.match import Match
from mosaic.client.play import PlayClient
from mosaic.client.tables import games_of_people, invite, seated
from mosaic.errors import InvalidArgumentError, MosaicError

pytest.importorskip("pettingzoo")


def test_a_key_is_a_legal_move_or_is_answered() -> None:
    """Tic-tac-toe: the keys count as one reads; a taken square and other keys say so."""
    world = TableWorld("tictactoe_v3", 0, {}, frames=False)
    world.begin(1)
    names = world.game.names
    assert [names[world.game.keys.index(key)] for key in "1239"] == [
        "row 1 column 1",
        "row 1 column 2",
        "row 1 column 3",
        "row 3 column 3",
    ]
    taken = next(key for key in "123456789" if isinstance(read_move([key], world), str))
    assert str(read_move([taken], world)).endswith("is taken")
    assert "1, " in str(read_move(["x"], world))
    assert "played to its end" in str(read_move(["reset"], world))
    world.close()


def _press_until_over(game: PlayClient, seen: set[str]) -> None:
    """The first free square, again and again; what is wrong with a key is answered at once."""
    # A look at the end of the game before does not count as a move.
    if game.scene.over:
        game.hold("1")
        game.next_scene()
    while not game.scene.over:
        seen.add(game.scene.note)
        for key in "123456789":
            while not game.scene.waits:
                game.next_scene()
            if game.scene.over:
                break
            game.hold(key)
            game.next_scene()


def test_a_person_plays_both_seats_and_is_rated(trainer: Trainer) -> None:
    """Each seed in both orders; who leaves keeps what was played; the arena finds it."""
    client, match = trainer.client, Match("tictactoe_v3", 4, 2)
    command = [sys.executable, "-m", "mosaic", "arena", "tictactoe_v3", "--json"]
    command += ["--agents", "human,random", "--seed", "4", "--seeds", "2"]
    home = trainer.environment(MOSAIC_HOME=str(trainer.home.root))
    refused = subprocess.run(command, env=home, capture_output=True, check=False)
    assert b"mosaic play tictactoe_v3 --against random --seed 4" in refused.stderr
    run = invite(client, "random", match)
    sides: set[str] = set()
    with PlayClient(client, run.run_id, patience_s=150.0) as game:
        assert game.greeting.keys["5"] == "row 2 column 2"
        _press_until_over(game, sides)
        _press_until_over(game, sides)
        game.hold("1")
        game.quit()
    ended = trainer.ended(run.run_id)
    assert ended.completed, ended.reason
    assert sides == {"you are the crosses", "you are the circles"}
    ((pair, games),) = games_of_people(client, ["human", "random"], match).items()
    assert pair == ("human", "random")
    assert [(one.seats, one.seed) for one in games] == [
        (("human", "random"), 4),
        (("random", "human"), 4),
    ]
    done = subprocess.run(command, env=home, capture_output=True, check=True)
    rows = {row["agent"]: row for row in json.loads(done.stdout)["agents"]}
    assert (rows["human"]["games"], rows["random"]["games"]) == (2, 2)


def test_who_cannot_sit_opposite_is_told(trainer: Trainer) -> None:
    """A BDI agent has no values for a board; a world for one has no second seat."""
    with pytest.raises(InvalidArgumentError, match="numbered states"):
        seated(trainer.client, ["bdi", "bot"])
    with pytest.raises(InvalidArgumentError, match="one player"):
        invite(trainer.client, "bot", Match("FrozenLake-v1", 1, 1))
    with pytest.raises(MosaicError, match="no agent"):
        invite(trainer.client, "rundom", Match("tictactoe_v3", 1, 1))
