"""Playing from a file of keys and getting the episode back, from the command line."""

from pathlib import Path

import gymnasium

from cli.conftest import Command

KEYS = Path(__file__).parents[1] / "data" / "keys.txt"


def test_a_played_episode_comes_back_as_it_was(mosaic: Command, tmp_path: Path) -> None:
    """`mosaic replay` gives the rewards and observations that the game really gave."""
    mosaic("play", "CartPole-v1", "--seed", "3", "--script", str(KEYS))
    episode = mosaic.json("replay", "last")
    assert episode["steps"]
    game = gymnasium.make("CartPole-v1")
    game.reset(seed=3)
    for step in episode["steps"]:
        _, reward, terminated, truncated, _ = game.step(step["action"])
        assert (step["reward"], step["terminated"]) == (reward, terminated)
        assert step["frame_sha256"]
    assert terminated or truncated
    game.close()
    assert mosaic.json("replay", "last") == episode
    video = tmp_path / "episode.mp4"
    mosaic("replay", "last", "--video", str(video))
    assert video.stat().st_size > 1000


def test_replaying_what_was_not_recorded_is_refused(mosaic: Command) -> None:
    """A run without records, and an episode that was never played, get a sentence."""
    mosaic("train", "example", "--total-timesteps", "3")
    assert "recorded no" in mosaic("replay", "last", code=2)
    mosaic("play", "CartPole-v1", "--script", str(KEYS))
    assert "is not recorded" in mosaic("replay", "last", "--episode", "99", code=2)


def test_playing_without_a_keyboard_says_what_to_do(mosaic: Command) -> None:
    """In a pipe there are no keys: the command names --script."""
    assert "--script" in mosaic("play", "CartPole-v1", code=1, stdin="")
