"""A game of our own for two: PettingZoo's rules, a score for each player, and exact resuming."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pettingzoo")

from pettingzoo.test import parallel_api_test

from cleanrl_worker.games.doubles import ENV_ID, HALF, LEFT, RIGHT, STAY, Doubles
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.pettingzoo import MultiAgentAtari, make_game
from cleanrl_worker.running.checkpoints import to_plain


def _play_well(frames: np.ndarray, player: int) -> int:
    """Move towards the ball of one's own half."""
    half = frames[3][:, player * HALF : (player + 1) * HALF]
    ball, paddle = half[:78].max(axis=0) > 200, half[82] > 0
    gap = np.flatnonzero(ball).mean() - np.flatnonzero(paddle).mean()
    return RIGHT if gap > 4 else LEFT if gap < -4 else STAY


def test_the_game_keeps_pettingzoos_rules() -> None:
    """Whatever else plays PettingZoo's games can play it."""
    parallel_api_test(Doubles(), num_cycles=300)


def test_each_player_has_a_score_of_its_own() -> None:
    """Who plays well scores, whatever the other does; misses of one end the game for both."""
    envs = MultiAgentAtari(ENV_ID, 2)
    envs.reset(seed=1)
    info = {}
    while not info:
        chosen = np.array([_play_well(envs.obs[0], 0), STAY])
        _, _, terminated, truncated, info = envs.step(chosen)
    (good, _), (poor, _) = info["episodes"]
    assert good > poor
    assert terminated.all()
    assert not truncated.any()
    envs.close()


def test_players_who_never_miss_are_stopped_by_the_time_limit() -> None:
    """The end of the time is not the end of the game: truncated, not terminated."""
    envs = MultiAgentAtari(ENV_ID, 2)
    envs.reset(seed=1)
    info = {}
    while not info:
        chosen = np.array([_play_well(frames, player) for player, frames in enumerate(envs.obs)])
        _, _, terminated, truncated, info = envs.step(chosen)
    assert truncated.all()
    assert not terminated.any()
    assert min(score for score, _ in info["episodes"]) > 40
    envs.close()


def test_a_game_is_brought_back_to_where_it_was() -> None:
    """Resuming repeats the actions since the game began, so the next frames are the same."""
    first, second = MultiAgentAtari(ENV_ID, 4), MultiAgentAtari(ENV_ID, 4)
    rng = np.random.default_rng(0)
    first.reset(seed=5)
    for _ in range(60):
        first.step(first.sample_actions(rng))
    second.reset(seed=9)
    second.load_state_dict(to_plain(first.state_dict()))
    assert not second.notes
    for _ in range(60):
        chosen = first.sample_actions(rng)
        ours, theirs = first.step(chosen), second.step(chosen)
        assert np.array_equal(ours[0], theirs[0])
        assert np.array_equal(ours[1], theirs[1])


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    """The game is offered beside PettingZoo's own."""
    with pytest.raises(UsageError, match="Did you mean mosaic/Doubles-v0"):
        make_game("mosaic/Double-v0")
