"""A trained policy can be played, whatever trained it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleanrl_worker.kit.errors import CheckpointError, UsageError
from cleanrl_worker.kit.evaluation import Episode, evaluate
from cleanrl_worker.kit.verification import train


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_dir = tmp_path_factory.mktemp("runs") / "cartpole"
    train("ppo", run_dir, "--total-timesteps", "30000")
    return run_dir


def test_evaluation_is_reproducible_and_batched(cartpole: Path) -> None:
    """The same seed gives the same episodes; the discounted return fits gamma and length."""
    seen: list[Episode] = []
    first = evaluate(cartpole, episodes=25, seed=7, gamma=0.9, on_episode=seen.append)
    again = evaluate(cartpole, episodes=25, seed=7, gamma=0.9)
    assert first == again == seen
    for episode in first:
        assert episode.episodic_return == episode.length
        expected = (1 - 0.9**episode.length) / (1 - 0.9)
        assert episode.discounted_return == pytest.approx(expected)


def test_long_episodes_are_cut_when_asked(cartpole: Path) -> None:
    """With max_steps every episode ends in time and says that it was cut."""
    episodes = evaluate(cartpole, episodes=5, max_steps=8)
    assert [(episode.length, episode.cut) for episode in episodes] == [(8, True)] * 5


def test_videos_are_recorded(cartpole: Path, tmp_path: Path) -> None:
    """An evaluation with a video folder leaves a film of the first environment."""
    evaluate(cartpole, episodes=1, max_steps=20, video_dir=tmp_path / "videos")
    assert list((tmp_path / "videos").glob("*.mp4"))


def test_a_policy_is_refused_where_it_cannot_act(cartpole: Path) -> None:
    """Another environment's spaces are refused with a sentence."""
    with pytest.raises(UsageError, match="discrete"):
        evaluate(cartpole, env_id="Pendulum-v1")
    with pytest.raises(CheckpointError, match="does not fit Acrobot-v1"):
        evaluate(cartpole, env_id="Acrobot-v1")


def test_a_file_that_is_no_policy_is_refused(cartpole: Path, tmp_path: Path) -> None:
    """A state file or a missing file is named as such."""
    state = next((cartpole / "checkpoints").glob("*.state"))
    with pytest.raises(CheckpointError, match="lacks model"):
        evaluate(state)
    with pytest.raises(CheckpointError, match="no policy file"):
        evaluate(tmp_path / "nothing.cleanrl_model")
