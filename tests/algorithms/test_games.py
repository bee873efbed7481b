"""The game of our own has what makes Atari games special, through the same code."""

from __future__ import annotations

from typing import cast

import gymnasium as gym
import numpy as np
import pytest

from cleanrl_worker import catalog, get_worker_metadata
from cleanrl_worker.games.catch import FIRE, LEFT, NOOP, RIGHT
from cleanrl_worker.kit.atari import AtariEnvs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.sampling import Random
from cleanrl_worker.running.checkpoints import to_plain
from mosaic.workers.facts import AlgorithmFacts, EnvironmentFacts
from mosaic.workers.fitting import misfit

CATCH = "mosaic/Catch-v0"


def _play_well(envs: AtariEnvs) -> np.ndarray:
    """Move towards the ball, which is what is bright above the paddle."""
    actions = []
    for frames in envs.obs:
        picture = frames[-1]
        ball, paddle = picture[1:78].max(axis=0), picture[82]
        if not ball.any():
            actions.append(FIRE)
            continue
        gap = np.flatnonzero(ball).mean() - np.flatnonzero(paddle).mean()
        actions.append(RIGHT if gap > 6 else LEFT if gap < -6 else NOOP)
    return np.array(actions)


def test_a_good_player_scores_until_the_time_is_up_and_rewards_are_clipped() -> None:
    """Who never misses is stopped by the time limit, with the true score; learning sees signs."""
    envs = AtariEnvs(CATCH, 2)
    # Games in which so simple a player misses no ball.
    envs.reset(seed=4)
    clipped, info = np.zeros(2), {}
    while not info:
        _, rewards, terminated, truncated, info = envs.step(_play_well(envs))
        clipped += rewards
    assert truncated.all()
    assert not terminated.any()
    scores = np.array([score for score, _ in info["episodes"]])
    assert (scores > 60).all()
    assert (scores > clipped).all(), "golden balls count five points, but only one for learning"


def test_a_ball_waits_for_fire_and_missing_it_three_times_ends_the_game() -> None:
    """Each miss costs a life; after the third the game is over, terminated and not truncated."""
    game = gym.make(CATCH)
    game.reset(seed=3)
    pictures = {game.step(NOOP)[0][:78].tobytes() for _ in range(20)}
    assert len(pictures) == 1, "nothing moves before FIRE"
    game.close()

    envs = AtariEnvs(CATCH, 1)
    envs.reset(seed=3)
    lost, over = 0, {}
    while not over:
        ball_left = envs.obs[0, -1, 1:78, :42].any()
        _, _, terminated, truncated, over = envs.step(np.array([RIGHT if ball_left else FIRE]))
        lost += int(terminated[0])
        assert not truncated.any()
    assert lost == 3


def test_catch_is_brought_back_in_the_middle() -> None:
    """Restored games continue with the same frames and rewards."""
    envs, twins = AtariEnvs(CATCH, 2), AtariEnvs(CATCH, 2)
    rng = Random(3)
    envs.reset(seed=5)
    for _ in range(70):
        envs.step(envs.sample_actions(rng))
    twins.load_state_dict(to_plain(envs.state_dict()))
    assert twins.notes == []
    for _ in range(40):
        actions = envs.sample_actions(rng)
        one, other = envs.step(actions), twins.step(actions)
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])


def test_a_game_that_does_not_exist_is_refused_with_the_nearest() -> None:
    """A typing mistake leads to the game that was meant."""
    with pytest.raises(UsageError, match="mosaic/Catch-v0"):
        AtariEnvs("mosaic/Cach-v0", 1)


@pytest.mark.parametrize(
    ("algorithm", "env_id", "observations"),
    [("ppo_atari", CATCH, "image"), ("ppo_trxl", "mosaic/Recall-v0", "vector")],
)
def test_our_games_are_listed_and_fit_what_learns_them(
    algorithm: str, env_id: str, observations: str
) -> None:
    """Forms offer them, and the platform accepts a run in them."""
    listed = catalog.environment(env_id)
    facts = {"family": "mosaic", "actions": "discrete", "observations": observations}
    assert listed == {"id": env_id, **facts}
    said = cast(AlgorithmFacts, catalog.describe(algorithm))
    assert misfit(get_worker_metadata(), cast(EnvironmentFacts, listed), said) == ""
