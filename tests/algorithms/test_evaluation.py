"""A trained policy can be played, whatever trained it."""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from cleanrl_worker.kit.envs import Envs
from cleanrl_worker.kit.errors import CheckpointError, UsageError
from cleanrl_worker.kit.sampling import Random
from cleanrl_worker.running.evaluation import Episode, Player, evaluate, open_policy
from cleanrl_worker.running.recording import EpisodeRecorder
from cleanrl_worker.running.verification import train


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
    """An evaluation with a video folder films every episode, and the numbers stay the same."""
    folder = tmp_path / "videos"
    episodes = evaluate(cartpole, episodes=3, max_steps=20, video_dir=folder)
    assert episodes == evaluate(cartpole, episodes=3, max_steps=20)
    names = sorted(path.name for path in folder.iterdir())
    assert names == [f"episode-{n}.{ending}" for n in range(3) for ending in ("json", "mp4")]
    for episode in episodes:
        inside = json.loads((folder / f"episode-{episode.index}.json").read_text())
        assert (inside["return"], inside["length"]) == (episode.episodic_return, episode.length)
        assert inside["seed"] in (1, 2, 3)
        assert len(inside["values"]) == len(inside["actions"]) == episode.length


def test_the_numbers_of_info_become_curves_of_the_episode(tmp_path: Path) -> None:
    """What an environment says about a step is written down step by step."""

    class Terms(gym.Wrapper):
        def step(self, action: object) -> tuple:
            obs, reward, over, cut, _ = self.env.step(action)
            return obs, reward, over, cut, {"reward_alive": 0.5, "name": "x", "ok": True}

    envs = Envs("CartPole-v1", 1)
    envs._inner = (Terms(envs._inner[0]),)
    recorder = EpisodeRecorder(envs, lambda obs, rng, deterministic: np.zeros(1, int), tmp_path)
    player = Player(envs, recorder._policy, recorder=recorder)
    [episode] = player.play(1, 3, True)
    envs.close()
    inside = json.loads((tmp_path / "episode-0.json").read_text())
    assert inside["terms"] == {"reward_alive": [0.5] * episode.length}
    assert (inside["seed"], inside["video"], inside["scores"]) == (3, "", [])


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


class _UpstreamActor(nn.Module):
    """CleanRL's actor of TD3 and DDPG, by the names and shapes in its files."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(3, 256)
        self.fc2 = nn.Linear(256, 256)
        self.fc_mu = nn.Linear(256, 1)
        self.register_buffer("action_scale", torch.tensor([[2.0]]))
        self.register_buffer("action_bias", torch.tensor([[0.0]]))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        rows = self.fc2(self.fc1(rows).relu()).relu()
        return self.fc_mu(rows).tanh() * self.action_scale + self.action_bias


def test_upstreams_saved_actor_acts_as_it_did(tmp_path: Path) -> None:
    """A file of CleanRL's td3 has other names and loads; the same states lead to the same actions.
    A network of another shape is refused."""
    actor, path = _UpstreamActor(), tmp_path / "td3.cleanrl_model"
    torch.save((actor.state_dict(), nn.Linear(4, 1).state_dict()), path)
    trained = open_policy(path, "Pendulum-v1", "td3_continuous_action")
    envs = trained.make_envs(1)
    policy = trained.rebuild(envs)
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    wanted = actor(torch.from_numpy(rows)).detach().numpy()
    np.testing.assert_allclose(policy(rows, Random(0), True), wanted, rtol=1e-5, atol=1e-6)
    envs.close()

    torch.save(nn.Linear(3, 1).state_dict(), path)
    with pytest.raises(CheckpointError, match="does not fit"):
        evaluate(path, "Pendulum-v1", algorithm="td3_continuous_action")
