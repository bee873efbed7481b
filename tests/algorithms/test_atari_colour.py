"""Atari games are shown as people know them, and playing them is not changed by it."""

from __future__ import annotations

import numpy as np
import pytest
from support.trainer import until

from cleanrl_worker.kit.atari import AtariEnvs
from cleanrl_worker.kit.sampling import Random
from cleanrl_worker.running import atari_colour
from cleanrl_worker.running.checkpoints import to_plain

_GAME = "BreakoutNoFrameskip-v4"
# How bright each colour looks (ITU-R BT.601).
_LUMINANCE = np.array([0.299, 0.587, 0.114])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures as small as the agent's, which can then be compared point by point."""
    monkeypatch.setattr(atari_colour, "HEIGHT", 84)
    monkeypatch.setattr(atari_colour, "WIDTH", 84)


def _same_moment(picture: np.ndarray, seen: np.ndarray) -> bool:
    """Whether the two differ by rounding alone."""
    return float(np.abs(picture @ _LUMINANCE - seen).max()) < 4


@pytest.mark.usefixtures("small")
def test_the_picture_is_the_game_in_colour_at_the_moment_the_agent_sees() -> None:
    """Through lost lives and new games, the coloured picture is of the same moment."""
    envs = AtariEnvs(_GAME, 2)
    rng = Random(0)
    envs.reset(seed=3)
    for step in range(700):
        _, _, _, _, info = envs.step(envs.sample_actions(rng))
        if step % 50 == 0 or info:
            for picture, frames in zip(envs.render(), envs.obs, strict=True):
                assert (picture[..., 0] != picture[..., 2]).any(), "it has colours"
                assert _same_moment(picture, frames[-1])
    one, other = envs.render()
    assert not np.array_equal(one, other), "each game has its own picture"


def test_a_restored_game_is_shown_where_it_continues() -> None:
    """After a resume the picture is that of the restored game."""
    first, second = AtariEnvs(_GAME, 1), AtariEnvs(_GAME, 1)
    rng = Random(0)
    first.reset(seed=3)
    for _ in range(60):
        first.step(first.sample_actions(rng))
    second.reset(seed=9)
    second.load_state_dict(to_plain(first.state_dict()))
    np.testing.assert_array_equal(first.render()[0], second.render()[0])


def test_a_viewer_gets_the_coloured_picture_without_holding_up_the_game() -> None:
    """First the agent's own picture at once, then the game's as soon as it has caught up."""
    envs = AtariEnvs(_GAME, 1)
    rng = Random(0)
    envs.reset(seed=3)
    for _ in range(300):
        envs.step(envs.sample_actions(rng))
    assert envs._live(0).shape == (84, 84, 3)
    until(lambda: envs._live(0).shape == (210, 160, 3), "the coloured picture")
    until(lambda: np.array_equal(envs._live(0), envs.render()[0]), "the present one")
    envs.step(envs.sample_actions(rng))
    until(lambda: np.array_equal(envs._live(0), envs.render()[0]), "the next one")
    envs.close()
    assert envs._spectators._thread is None, "nothing is left running"


def test_looking_changes_nothing() -> None:
    """A game plays the same whether or not it is drawn at every step."""
    watched, alone = AtariEnvs(_GAME, 1), AtariEnvs(_GAME, 1)
    for envs in (watched, alone):
        envs.reset(seed=5)
    rng = Random(0)
    for _ in range(40):
        actions = watched.sample_actions(rng)
        watched.step(actions)
        watched.render()
        alone.step(actions)
        np.testing.assert_array_equal(watched.obs, alone.obs)


def test_our_own_games_are_shown_in_colour_too() -> None:
    """Catch is drawn as it is, not as the agent sees it."""
    envs = AtariEnvs("mosaic/Catch-v0", 1)
    envs.reset(seed=1)
    envs.step(np.array([2]))
    (picture,) = envs.render()
    assert picture.shape == (84, 84, 3)
    assert np.abs(picture @ _LUMINANCE - envs.obs[0, -1]).max() <= 1
