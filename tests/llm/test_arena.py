"""One table for agents of different kinds, on the same seeds."""

import json
import subprocess
import sys

import pytest
from support.trainer import Trainer

from mosaic.arena.match import Match, read_agents
from mosaic.arena.table import Played, PlayedEpisode, compare
from mosaic.client.arena import collect, start
from mosaic.client.play import PlayClient
from mosaic.config import build
from mosaic.errors import InvalidArgumentError, MosaicError

ENV = "BabyAI-GoToObj-v0"


def _played(agent: str, returns: list[float], **facts: float) -> Played:
    episodes = [PlayedEpisode(seed, total, 10) for seed, total in enumerate(returns)]
    return Played(agent, "RUN", episodes, int(facts.get("tokens", 0)), facts.get("cost"), 4.0)


def test_the_table_has_shares_means_leads_and_costs() -> None:
    """Success and return, the lead over the first agent by seed, the price of a success."""
    first, second = compare(
        ENV,
        [
            _played("random", [0.0, 0.0, 0.5, 0.0]),
            _played("llm:x", [0.5, 0.0, 1.0, 0.5], tokens=300, cost=0.06),
        ],
    )
    assert (first.success, first.lead) == (0.25, None)
    assert second.success == 0.75
    assert second.lead is not None
    assert (second.lead.seeds, second.lead.mean) == (4, 0.375)
    assert second.tokens_per_solved == 100
    assert second.cost_per_solved == pytest.approx(0.02)
    assert second.milliseconds_per_step == 100


def test_where_nothing_is_solved_nothing_has_a_price() -> None:
    """No success, no cost of a success; and a task without a goal has no share of successes."""
    (lost,) = compare(ENV, [_played("random", [0.0, 0.0])])
    assert (lost.success, lost.cost_per_solved) == (0.0, None)
    (pole,) = compare("CartPole-v1", [_played("random", [9.0, 11.0])])
    assert (pole.success, pole.mean_return) == (None, 10.0)


@pytest.mark.parametrize("text", ["bot", "bot,bot", "bot,rundom", "llm,bot", ""])
def test_what_is_no_arena_is_refused(text: str) -> None:
    """One agent alone, the same one twice, and misspelled ones are refused with the choices."""
    with pytest.raises(InvalidArgumentError):
        read_agents(text)


def test_bot_and_random_play_the_same_worlds(trainer: Trainer) -> None:
    """Both play the seeds that were asked for; a run that has played is taken as it is."""
    match = Match(ENV, seed=7, episodes=4, max_steps=30)
    runs = [start(trainer.client, agent, match) for agent in ("bot", "random")]
    ended = [trainer.ended(run.run_id) for run in runs]
    bot, chance = (
        collect(trainer.client, agent, run, match)
        for agent, run in zip(("bot", "random"), ended, strict=True)
    )
    assert [e.seed for e in bot.episodes] == [e.seed for e in chance.episodes] == [7, 8, 9, 10]
    row = compare(ENV, [bot])[0]
    assert row.success == 1.0
    again = f"run:{bot.run_id}"
    assert collect(trainer.client, again, start(trainer.client, again, match), match) == Played(
        again, bot.run_id, bot.episodes, 0, 0.0, bot.seconds
    )
    words = ["--agents", f"run:{chance.run_id},{again}", "--seed", "7", "--seeds", "4", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "mosaic", "arena", ENV, *words],
        env=trainer.environment(MOSAIC_HOME=str(trainer.home.root)),
        capture_output=True,
        check=True,
    )
    printed = json.loads(done.stdout)["agents"][1]
    assert (printed["agent"], printed["success"], printed["lead"]["seeds"]) == (again, 1.0, 4)
    with pytest.raises(MosaicError, match="plays"):
        start(trainer.client, again, Match("BabyAI-GoToLocal-v0", 7, 4))


def test_the_row_of_human_play_is_what_people_have_played(trainer: Trainer) -> None:
    """The games of a person fill the row by their seeds; a script of keys is no person."""
    env_id = "FrozenLake-v1"
    match = Match(env_id, seed=7, episodes=3)
    scripted = build.play("human", env_id, seed=8, script="right\n" * 200)
    trainer.ended(trainer.client.submit(scripted).run_id)
    with pytest.raises(MosaicError, match="mosaic play FrozenLake-v1 --seed 7"):
        start(trainer.client, "human", match)
    run = trainer.client.submit(build.play("human", env_id, seed=7))
    with PlayClient(trainer.client, run.run_id) as game:
        while not game.scene.over:
            game.hold("right")
            game.next_scene()
        game.quit()
    trainer.ended(run.run_id)
    record = start(trainer.client, "human", match)
    human = collect(trainer.client, "human", record, match)
    assert (human.run_id, [episode.seed for episode in human.episodes]) == (run.run_id, [7])


def test_a_bdi_agent_plays_the_same_seeds(trainer: Trainer) -> None:
    """`bdi` is the newest trained agent, greedy, with a seed for each episode; none is an error."""
    match = Match("FrozenLake-v1", seed=7, episodes=3)
    with pytest.raises(MosaicError, match="mosaic train spade_bdi --env-id FrozenLake-v1"):
        start(trainer.client, "bdi", match)
    worker = build.Worker("spade_bdi", "spade_bdi_rl_worker.cli")
    learned = build.train(
        worker,
        "spade_bdi",
        env_id=match.env_id,
        parameters={"headless": True, "episodes": 40, "frames": False},
    )
    assert trainer.ended(trainer.client.submit(learned).run_id).completed
    record = trainer.ended(start(trainer.client, "bdi", match).run_id)
    played = collect(trainer.client, "bdi", record, match)
    assert [episode.seed for episode in played.episodes] == [7, 8, 9]
