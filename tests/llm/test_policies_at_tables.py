"""Trained policies at tables for several players: seated, refused, and rated with the others."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from support.trainer import Trainer, trainers

from llm_worker.table.policies import misfit
from llm_worker.table.world import TableWorld
from mosaic.arena.elo import ratings
from mosaic.arena.match import Match
from mosaic.client.tables import start_round, wait_for_games
from mosaic.errors import InvalidArgumentError, MosaicError
from mosaic.records import RunRecord
from mosaic.workers.sessions import Answer

pytest.importorskip("pettingzoo")

# A task of a user with the board and the moves of tic-tac-toe: name a free square.
_BOARDS = """
import gymnasium as gym
import numpy as np


class FreeSquare(gym.Env):
    observation_space = gym.spaces.Box(0.0, 1.0, (3, 3, 2), np.float32)
    action_space = gym.spaces.Discrete(9)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._board(), {}

    def step(self, action):
        taken = bool(self._stones.reshape(9, 2)[action].any())
        return self._board(), -1.0 if taken else 1.0, True, False, {}

    def _board(self):
        squares = self.np_random.integers(0, 3, (3, 3))
        self._stones = np.stack([squares == 1, squares == 2], -1).astype(np.float32)
        return self._stones


gym.register("FreeSquare-v0", FreeSquare)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, python_path: str) -> Iterator[Trainer]:
    """A daemon that finds a user's own environment."""
    folder = tmp_path_factory.mktemp("boards")
    (folder / "own_boards.py").write_text(_BOARDS)
    with trainers(tmp_path_factory.mktemp("tables"), f"{folder}:{python_path}") as make:
        yield make(warm_start="true").start()


@pytest.fixture(scope="module")
def learned(home: Trainer) -> RunRecord:
    """A policy that reads the board of tic-tac-toe."""
    run = home.client.train(
        "ppo", env_id="own_boards:FreeSquare-v0", total_timesteps=256, num_steps=32
    )
    return home.ended(run.run_id)


def test_a_policy_sits_at_a_board(home: Trainer, learned: RunRecord) -> None:
    """It plays both seats, and legal moves only; a run that learned nothing cannot sit there."""
    assert learned.completed, learned.reason
    policy = f"run:{learned.run_id}"
    match = Match("tictactoe_v3", 1, 1)
    runs = start_round(home.client, ["bot", policy], match)
    games = wait_for_games(home.client, runs)
    assert [game.seats for game in games] == [("bot", policy), (policy, "bot")]
    assert {row.agent: row.games for row in ratings(["bot", policy], games)} == {
        "bot": 2,
        policy: 2,
    }
    played = runs["bot", policy].run_id
    steps = home.client.read_file(played, "llm/steps.jsonl").data.splitlines()
    assert {json.loads(line)["player"] for line in steps} == {"bot", policy}
    with pytest.raises(InvalidArgumentError, match="saved no policy"):
        start_round(home.client, ["bot", f"run:{played}"], match)


def test_what_a_policy_must_read_to_sit_at_a_board() -> None:
    """The shape of the board or a row of as many numbers, and as many moves. A policy that reads
    anything else is refused with what it reads."""
    world = TableWorld("connect_four_v3", 0, {}, frames=False)
    world.begin(1)
    fits = [([6, 7, 2], 7), ([84], 7)]
    for shape, moves in fits:
        about = Answer(type="init", env_id="Own-v0", reads={"shape": shape}, actions={"n": moves})
        assert misfit("run:X", about, world) == ""
    for shape, moves in [([7, 6, 2], 7), ([84], 9), ([4], 7)]:
        about = Answer(type="init", env_id="Own-v0", reads={"shape": shape}, actions={"n": moves})
        said = misfit("run:X", about, world)
        assert f"{tuple(shape)} and chooses among {moves} actions" in said, said
        assert said.endswith("connect_four_v3 shows (6, 7, 2) and has 7 moves")
    world.close()


@pytest.mark.prove
def test_a_trained_policy_is_rated_above_chance(home: Trainer) -> None:
    """Trained in pgx's tic-tac-toe, it beats chance in PettingZoo's, and is rated with a model.

    In connect four it is refused with what would fit, and the others stop.
    """
    pytest.importorskip("pgx")
    run = home.client.train("ppo_ondevice", env_id="pgx/tic_tac_toe", total_timesteps=1_000_000)
    assert home.ended(run.run_id).completed
    policy = f"run:{run.run_id}"
    words = ["arena", "tictactoe_v3", "--agents", f"random,bot,llm:embedded,{policy}"]
    done = subprocess.run(
        [sys.executable, "-m", "mosaic", *words, "--seeds", "10", "--json"],
        env=home.environment(MOSAIC_HOME=str(home.home.root)),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    rows = {row["agent"]: row for row in json.loads(done.stdout)["agents"]}
    assert [row["games"] for row in rows.values()] == [60] * 4
    assert rows[policy]["elo"] > rows["random"]["elo"] + 100, rows
    tables = start_round(
        home.client, ["bot", "random", policy], Match("connect_four_v3", 1, 10_000)
    )
    with pytest.raises(MosaicError, match="--env-id pgx/connect_four"):
        wait_for_games(home.client, tables)
    assert home.ended(tables["bot", "random"].run_id).outcome == "cancelled"
