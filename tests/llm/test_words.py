"""Games in words: text comes out, a move as text goes in."""

import json

import pytest
from support.trainer import Trainer

from llm_worker.errors import WorldError
from llm_worker.play.actions import Words
from llm_worker.play.answers import Decision, Invalid, read_answer
from llm_worker.play.scripted import RandomPlayer
from llm_worker.play.world import World
from mosaic.config import build


def test_a_move_is_read_from_any_answer() -> None:
    """JSON, a sentence with the move in brackets; where moves are offered, only these."""
    offered, free = Words(("[up]", "[down]")), Words()
    assert read_answer('{"reasoning": "x", "action": "Up"}', offered) == Decision("[up]", "x")
    said = read_answer("I will not go [up] but [down].", offered)
    assert isinstance(said, Decision)
    assert said.action == "[down]"
    assert isinstance(read_answer("[left]", offered), Invalid)
    assert isinstance(read_answer("I do not know", offered), Invalid)
    asked = read_answer("is it an animal?", free)
    assert isinstance(asked, Decision)
    assert asked.action == "is it an animal?"
    assert offered.schema()["enum"] == ["[up]", "[down]"]
    assert (offered.default, Words((), "[pass]").default) == ("[up]", "[pass]")


def test_a_game_of_textarena_is_played_in_words() -> None:
    """The same seed gives the same game; the offered moves are taken; the goal is a success."""
    pytest.importorskip("textarena")
    world = World("textarena:FrozenLake-v0", 40)
    player = RandomPlayer()
    played = []
    for _ in range(2):
        world.begin(3)
        player.begin(world, 3)
        texts = [world.text()]
        assert isinstance(world.actions, Words)
        assert "[down]" in world.actions.offered
        while not (outcome := world.act(player.decide(world).action)).ended:
            texts.append(world.text())
        played.append((texts, outcome))
    assert played[0] == played[1]
    assert played[0][1].success is False
    world.begin(3)
    for move in ("[right]", "[right]", "[right]", "[down]", "[down]", "[down]"):
        outcome = world.act(move)
    assert (outcome.terminated, outcome.success) == (True, True)
    world.close()


@pytest.mark.parametrize("name", ["FrozenLak-v0", "Hangman-v0", "TicTacToe-v0"])
def test_a_game_that_cannot_be_played_says_why(name: str) -> None:
    """A name that is none, a list of words that is not there, a game for two."""
    pytest.importorskip("textarena")
    with pytest.raises(WorldError, match="textarena:"):
        World(f"textarena:{name}").begin(1)


@pytest.mark.prove
def test_a_model_plays_a_game_of_textarena(trainer: Trainer) -> None:
    """The shipped model, its real server and a real game: offered moves, records, a summary.

    The model does not know the game; that each answer is a move of it is the server's schema. One
    step each: the text grows with the game, beyond what this model reads.
    """
    pytest.importorskip("textarena")
    worker = build.Worker("llm", "llm_worker.cli")
    parameters = {"model": "embedded", "episodes": 2, "max_steps": 1}
    config = build.train(
        worker, "llm", env_id="textarena:FrozenLake-v0", seed=3, parameters=parameters
    )
    run = trainer.ended(trainer.client.submit(config).run_id)
    assert run.completed, run.reason
    lines = trainer.client.read_file(run.run_id, "llm/steps.jsonl").data.splitlines()
    steps = [json.loads(line) for line in lines]
    moves = [f"[{word}]" for word in ["up", "down", "left", "right", "w", "a", "s", "d"]]
    assert {step["action"] for step in steps} <= set(moves)
    assert all(step["valid"] and step["tokens_out"] and step["requests"] for step in steps)
    assert "P" in steps[0]["text"], "the board is in what the model read"
    episodes = [one for batch in trainer.client.episodes(run.run_id) for one in batch.episodes]
    assert [one.seed for one in episodes if one.outcome != "summary"] == [3, 4]
