"""EnvPool's environments behave like all others: true last states, whole scores, exact resume."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import envpool
import numpy as np
import pytest
import torch
from gymnasium import spaces

from cleanrl_worker.cleanrl import ppg_procgen, ppo_rnd_envpool, pqn_atari_envpool_lstm
from cleanrl_worker.kit import envpool as kit
from cleanrl_worker.kit.envpool import EnvPoolEnvs, pool_id
from cleanrl_worker.kit.envpool_xla import XlaEnvs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.jax_backend import jax
from cleanrl_worker.kit.optim import Adam
from cleanrl_worker.running import checkpoint_files, checkpoints
from cleanrl_worker.running.verification import run_script

GAME, ENVS, STEPS = "Breakout-v5", 3, 260


def _actions(steps: int = STEPS) -> np.ndarray:
    return np.random.default_rng(5).integers(0, 4, (steps, ENVS))


def _played(envs: EnvPoolEnvs, actions: np.ndarray) -> list[tuple]:
    return [envs.step(row) for row in actions]


def _through_a_file(state: dict[str, Any], folder: Path) -> dict[str, Any]:
    checkpoints.save(folder, 1, {}, state)
    return checkpoints.load(folder / f"step-1{checkpoint_files.STATE_SUFFIX}")


def test_an_episode_resets_in_the_step_in_which_it_ends() -> None:
    """Beside EnvPool itself: where that takes an extra step to reset, ours gives the last
    observation as final_obs and the first of the next life at once; no reward is lost."""
    envs = EnvPoolEnvs(GAME, 1)
    first = envs.reset(seed=7)
    raw = envpool.make(
        GAME, env_type="gymnasium", num_envs=1, seed=7, episodic_life=True, reward_clip=True
    )
    raw_first, _ = raw.reset()
    np.testing.assert_array_equal(first, raw_first)
    lives_lost, scores, total = 0, [], 0.0
    for action in _actions()[:, :1]:
        obs, rewards, terminated, truncated, info = envs.step(action)
        raw_obs, raw_rewards, raw_terminated, raw_truncated, about = raw.step(action)
        assert rewards == raw_rewards
        assert (terminated, truncated) == (raw_terminated, raw_truncated)
        total += float(about["reward"][0])
        if raw_terminated[0]:
            lives_lost += 1
            np.testing.assert_array_equal(info["final_obs"], raw_obs)
            raw_obs, raw_rewards, *_ = raw.step(np.zeros(1, np.int64))
            assert raw_rewards[0] == 0
            ended = [score for score, _ in info["episodes"]]
            assert ended == ([total] if about["terminated"][0] else [])
            if ended:
                scores, total = scores + ended, 0.0
        else:
            assert info == {}
        np.testing.assert_array_equal(obs, raw_obs)
    assert lives_lost > len(scores) > 0


def test_evaluation_plays_whole_games_for_their_score() -> None:
    """Losing a life ends nothing, rewards are not clipped, and the sum is the score."""
    envs = EnvPoolEnvs(GAME, ENVS, learning=False)
    envs.reset(seed=1)
    totals, lengths = np.zeros(ENVS), np.zeros(ENVS)
    finished = 0
    for actions in _actions(400):
        _, rewards, terminated, truncated, info = envs.step(actions)
        totals += rewards
        lengths += 1
        for index, episode in zip(
            np.flatnonzero(terminated | truncated), info.get("episodes", []), strict=True
        ):
            assert episode == (totals[index], lengths[index])
            totals[index] = lengths[index] = 0
            finished += 1
    assert finished


@pytest.mark.parametrize("env_id", [GAME, "starpilot"])
def test_a_run_is_brought_back_exactly(env_id: str, tmp_path: Path) -> None:
    """After a checkpoint everything that follows is what would have followed."""
    envs = EnvPoolEnvs(env_id, ENVS)
    envs.reset(seed=3)
    _played(envs, _actions(60))
    state = _through_a_file(envs.state_dict(), tmp_path)
    other = EnvPoolEnvs(env_id, ENVS)
    other.reset(seed=99)
    other.load_state_dict(state)
    assert other.notes == []
    for one, two in zip(_played(envs, _actions(80)), _played(other, _actions(80)), strict=True):
        np.testing.assert_equal(one, two)


def test_a_long_run_begins_new_episodes_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeating millions of steps would take hours: the note tells what happens instead."""
    monkeypatch.setattr(kit, "REPEAT_AT_MOST", 30)
    envs = EnvPoolEnvs(GAME, ENVS)
    envs.reset(seed=3)
    _played(envs, _actions(20))
    other = EnvPoolEnvs(GAME, ENVS)
    other.load_state_dict(_through_a_file(envs.state_dict(), tmp_path))
    assert "new episodes begin" in other.notes[0]
    assert other.obs.any()
    with pytest.raises(UsageError, match=f"use --num-envs {ENVS}"):
        EnvPoolEnvs(GAME, 2).load_state_dict(envs.state_dict())


def test_a_restarted_game_leaves_the_others_alone() -> None:
    """Evaluation may cut one game short."""
    envs = EnvPoolEnvs(GAME, ENVS, learning=False)
    envs.reset(seed=1)
    _played(envs, _actions(30))
    before = envs.obs.copy()
    after = envs.restart(1)
    np.testing.assert_array_equal(after[[0, 2]], before[[0, 2]])
    assert (after[1] != before[1]).any()


def test_compiled_steps_are_the_same_steps(tmp_path: Path) -> None:
    """Stepping inside a compiled scan equals stepping EnvPool from outside, the step after an
    end is marked as a mere reset, and a compiled run is brought back exactly too."""
    envs = XlaEnvs(GAME, ENVS)
    envs.reset(seed=3)
    actions = _actions()
    rollout = jax.jit(lambda games, rows: jax.lax.scan(envs.xla_step(), games, rows))
    envs.games, outcome = rollout(envs.games, actions)
    info = envs.note(None, actions, outcome)

    raw = envpool.make(
        GAME, env_type="gymnasium", num_envs=ENVS, seed=3, episodic_life=True, reward_clip=True
    )
    raw.reset()
    ended = np.zeros(ENVS, np.bool_)
    scores, totals = [], np.zeros(ENVS)
    for t, row in enumerate(actions):
        obs, rewards, terminated, truncated, about = raw.step(row)
        np.testing.assert_array_equal(outcome.rewards[t], rewards)
        np.testing.assert_array_equal(outcome.valid[t], ~ended)
        ended = terminated | truncated
        totals += about["reward"]
        over = (about["terminated"] > 0) & terminated
        scores += totals[over].tolist()
        totals[over] = 0
    np.testing.assert_array_equal(envs.games.obs, obs)
    assert [score for score, _ in info["episodes"]] == scores
    assert scores

    other = XlaEnvs(GAME, ENVS)
    other.reset(seed=99)
    other.load_state_dict(_through_a_file(envs.state_dict(), tmp_path))
    assert other.notes == []
    for one, two in zip(envs.games[1:], other.games[1:], strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("Breakout-v5", ("Breakout-v5", 0.0)),
        ("MontezumaRevengeNoFrameskip-v4", ("MontezumaRevenge-v5", 0.0)),
        ("ALE/MontezumaRevenge-v5", ("MontezumaRevenge-v5", 0.25)),
        ("starpilot", ("StarpilotEasy-v0", 0.0)),
        ("procgen-coinrun-v0", ("CoinrunEasy-v0", 0.0)),
        ("BigfishHard-v0", ("BigfishHard-v0", 0.0)),
    ],
)
def test_names_of_all_generations_are_understood(given: str, wanted: tuple[str, float]) -> None:
    """Command lines written for Gymnasium, ALE and Procgen carry over."""
    assert pool_id(given) == wanted


@pytest.mark.parametrize(
    ("algorithm", "flags", "words"),
    [
        ("ppo_atari_envpool", "--env-id Brekout-v5", ["Brekout-v5", "Did you mean Breakout-v5"]),
        ("ppo_atari_envpool", "--env-id CartPole-v1", ["image", "vector"]),
        ("pqn_atari_envpool_lstm", "--num-envs 3", ["--num-minibatches 4", "--num-envs 3"]),
        ("ppo_procgen", "--num-minibatches 7", ["--num-minibatches 7", "16384"]),
        ("ppg_procgen", "--num-aux-rollouts 5", ["--num-aux-rollouts 5", "2048"]),
        ("ppg_procgen", "--n-iteration 100000", ["GiB", "use at most --n-iteration"]),
        ("ppo_rnd_envpool", "--update-proportion 0", ["--update-proportion", "above 0"]),
    ],
)
def test_refused_with_a_sentence(
    algorithm: str, flags: str, words: list[str], tmp_path: Path
) -> None:
    """Exit status 2 before training, no traceback, and the sentence names the way out."""
    output = tmp_path / "output"
    status = run_script(algorithm, [*flags.split(), "--run-dir", str(tmp_path / "run")], output)
    text = output.read_text()
    assert status == 2, text
    assert "Traceback" not in text
    assert [word for word in words if word not in text] == []


def _images(channels: int, size: int) -> SimpleNamespace:
    return SimpleNamespace(
        single_observation_space=spaces.Box(0, 255, (channels, size, size), np.uint8),
        single_action_space=spaces.Discrete(5),
    )


def test_memory_learns_from_what_it_acted_on() -> None:
    """A rollout replayed through the LSTM gives the values that acting step by step gave,
    with the past forgotten where an episode began."""
    torch.manual_seed(0)
    network = pqn_atari_envpool_lstm.QNetwork(_images(1, 84))
    hidden = pqn_atari_envpool_lstm.HIDDEN
    memory = pqn_atari_envpool_lstm.Recurrent(network, hidden, 2, torch.device("cpu"))
    rng = np.random.default_rng(0)
    obs = rng.integers(0, 256, (6, 2, 1, 84, 84)).astype(np.uint8)
    ends = np.array([[0, 0], [1, 0], [0, 0], [0, 1], [0, 0], [0, 0]], np.bool_)
    first, begins, acted = memory.state, [], []
    for frames, ended in zip(obs, ends, strict=True):
        begins.append(memory.begins)
        acted.append(memory(frames)[0])
        if ended.any():
            memory.reset(ended)
    with torch.no_grad():
        rows, starts = torch.from_numpy(obs).flatten(0, 1), torch.from_numpy(np.array(begins))
        replayed, state = network(rows, starts, first)
    np.testing.assert_allclose(replayed.numpy(), np.concatenate(acted), atol=1e-5)
    np.testing.assert_allclose(state.numpy(), memory.state.numpy(), atol=1e-5)


def test_the_value_teaches_the_trunk_only_in_the_auxiliary_phase() -> None:
    """The policy phase's value leaves the shared features alone; the auxiliary one reaches
    them."""
    torch.manual_seed(0)
    agent = ppg_procgen.Agent(_images(3, 64))
    frames = torch.randint(0, 256, (4, 3, 64, 64), dtype=torch.uint8)
    _, value, aux_value = agent(frames)
    trunk = list(agent.network.parameters())
    alone = torch.autograd.grad(value.sum(), trunk, allow_unused=True, retain_graph=True)
    assert all(gradient is None for gradient in alone)
    reached = torch.autograd.grad(aux_value.sum(), trunk)
    assert all(gradient.abs().sum() > 0 for gradient in reached)


def test_curiosity_fades_for_what_has_been_seen() -> None:
    """The predictor's error falls on frames it learned from and stays larger on new ones,
    while the random target never changes."""
    torch.manual_seed(0)
    rnd = ppo_rnd_envpool.RNDModel()
    curiosity = ppo_rnd_envpool.Curiosity(
        ppo_rnd_envpool.Args(num_envs=2), rnd, torch.device("cpu")
    )
    optimizer = Adam(rnd.predictor.parameters(), 1e-3)
    rng = np.random.default_rng(0)
    seen, new = rng.integers(0, 256, (2, 4, 4, 84, 84)).astype(np.uint8)
    curiosity.see(seen)
    curiosity.see(new)
    before = curiosity.errors(seen).mean()
    target = [parameter.clone() for parameter in rnd.target.parameters()]
    for _ in range(15):
        optimizer.zero_grad()
        rnd(curiosity.normalize(seen)).mean().backward()
        optimizer.step()
    assert curiosity.errors(seen).mean() < 0.5 * before
    assert curiosity.errors(seen).mean() < 0.7 * curiosity.errors(new).mean()
    assert all(map(torch.equal, target, rnd.target.parameters()))


def test_curiosity_is_measured_in_spreads_of_its_return() -> None:
    """Ten times larger errors give the same rewards once the statistics have followed."""
    rng = np.random.default_rng(0)
    errors = rng.random((200, 2)).astype(np.float32)
    args, device = ppo_rnd_envpool.Args(num_envs=2), torch.device("cpu")
    scaled = [
        ppo_rnd_envpool.Curiosity(args, None, device).scale(factor * errors)
        for factor in (1.0, 10.0)
    ]
    np.testing.assert_allclose(scaled[0], scaled[1], rtol=1e-3)


def test_the_recurrent_pqn_clips_gradients_as_published() -> None:
    """Its limit is 0.5, not the 10 of PQN without a memory."""
    assert pqn_atari_envpool_lstm.Args().max_grad_norm == 0.5
