"""Atari games: what ends an episode, what is remembered, what is drawn from memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cleanrl_worker.kit.atari import AtariEnvs, game_of
from cleanrl_worker.kit.envpool import EnvPoolEnvs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.frame_replay import FrameReplayBuffer
from cleanrl_worker.kit.prioritized import PrioritizedFrameReplay, SumTree
from cleanrl_worker.kit.sampling import Random
from cleanrl_worker.running.checkpoints import to_plain
from cleanrl_worker.running.evaluation import Player

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("env_id", "game", "sticky"),
    [
        ("BreakoutNoFrameskip-v4", "breakout", 0.0),
        ("ALE/MsPacman-v5", "ms_pacman", 0.25),
        ("UpNDownNoFrameskip-v4", "up_n_down", 0.0),
    ],
)
def test_ids_of_both_generations_work(env_id: str, game: str, sticky: float) -> None:
    """Old and new ids name the same ROMs; only the new ones have sticky actions."""
    assert game_of(env_id) == (game, sticky)


def test_an_unknown_game_is_refused_with_the_nearest() -> None:
    """A typing mistake leads to the game that was meant."""
    with pytest.raises(UsageError, match="BreakoutNoFrameskip-v4"):
        game_of("BreakuotNoFrameskip-v4")


def test_lives_end_episodes_for_learning_and_games_are_reported_whole() -> None:
    """Losing a life terminates, the game goes on; its score and length come at its true end."""
    envs = AtariEnvs("BreakoutNoFrameskip-v4", 2)
    rng = Random(0)
    envs.reset(seed=1)
    lives_lost = np.zeros(2, int)
    scores = np.zeros(2)
    games = []
    for _ in range(1500):
        _, rewards, terminated, _, info = envs.step(envs.sample_actions(rng))
        assert set(np.unique(rewards)) <= {-1.0, 0.0, 1.0}
        lives_lost += terminated
        scores += rewards
        if info:
            for index, (score, length) in zip(
                np.flatnonzero(info["ended"]), info["episodes"], strict=True
            ):
                assert lives_lost[index] == 5
                assert score >= scores[index] > -1
                games.append(length)
                lives_lost[index] = scores[index] = 0
    assert len(games) > 2
    assert min(games) > 50


def test_fire_is_pressed_after_a_lost_life_in_training_too() -> None:
    """An agent that never presses FIRE does not look at a game that waits for it: the next ball
    comes, and is lost, by itself, as in CleanRL and in our evaluation."""
    envs = AtariEnvs("BreakoutNoFrameskip-v4", 1)
    envs.reset(seed=1)
    lost = 0
    for _ in range(700):
        _, _, terminated, _, _ = envs.step(np.zeros(1, np.int64))
        lost += int(terminated[0])
    assert lost >= 5


@pytest.mark.parametrize("kind", ["ale", "envpool"])
def test_a_memory_begins_again_with_each_life_in_evaluation_too(kind: str) -> None:
    """A recurrent policy forgets in evaluation where it did in training: after every lost life."""
    envs = (
        AtariEnvs("BreakoutNoFrameskip-v4", 1, learning=False)
        if kind == "ale"
        else EnvPoolEnvs("Breakout-v5", 1, learning=False)
    )

    class Forgetful:
        resets = 0

        def __call__(self, obs: np.ndarray, rng: Random, deterministic: bool) -> np.ndarray:
            return rng.integers(4, size=len(obs))

        def reset(self, ended: np.ndarray) -> None:
            self.resets += int(ended.sum())

    policy = Forgetful()
    episodes = Player(envs, policy).play(1, 1, True)
    assert len(episodes) == 1
    assert policy.resets == 5
    envs.close()


def test_games_are_brought_back_in_the_middle() -> None:
    """Restored games go on with the same frames and rewards, also sticky ones."""
    envs, twins = AtariEnvs("ALE/Pong-v5", 2), AtariEnvs("ALE/Pong-v5", 2)
    rng = Random(3)
    envs.reset(seed=5)
    for _ in range(60):
        envs.step(envs.sample_actions(rng))
    envs.restart(1)
    for _ in range(15):
        envs.step(envs.sample_actions(rng))
    twins.load_state_dict(to_plain(envs.state_dict()))
    assert twins.notes == []
    for _ in range(40):
        actions = envs.sample_actions(rng)
        one, other = envs.step(actions), twins.step(actions)
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])


@pytest.mark.parametrize("long_chain", [10_000, 100])
def test_games_are_brought_back_after_several(
    long_chain: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after games that ended and games that were ended early, whether the chain of games
    goes on or begins anew."""
    monkeypatch.setattr("cleanrl_worker.kit.atari._LONG_CHAIN", long_chain)
    envs, twins = (AtariEnvs("BreakoutNoFrameskip-v4", 2) for _ in range(2))
    rng = Random(3)
    envs.reset(seed=5)
    games = 0
    while games < 4:
        games += len(envs.step(envs.sample_actions(rng))[-1].get("episodes", []))
    envs.restart(1)
    envs.restart(1)
    twins.load_state_dict(to_plain(envs.state_dict()))
    assert twins.notes == []
    lengths = []
    for _ in range(300):
        actions = envs.sample_actions(rng)
        one, other = envs.step(actions), twins.step(actions)
        np.testing.assert_array_equal(one[0], other[0])
        assert one[-1].get("episodes") == other[-1].get("episodes")
        lengths += one[-1].get("episodes", [])
    assert lengths


def _play(memory: FrameReplayBuffer, envs: AtariEnvs, steps: int) -> dict[bytes, tuple]:
    """Fill a memory; what followed each observation that was acted on."""
    rng = Random(1)
    obs = envs.reset(seed=2)
    seen = {}
    for _ in range(steps):
        actions = envs.sample_actions(rng)
        next_obs, rewards, terminated, _, info = envs.step(actions)
        memory.add(obs, actions, rewards, terminated, info)
        true_next = info["final_obs"] if info else next_obs
        for index in range(envs.num_envs):
            key = obs[index].tobytes() + bytes([int(actions[index])])
            following = (true_next[index].tobytes(), float(rewards[index]), bool(terminated[index]))
            seen.setdefault(key, []).append(following)
        obs = next_obs
    return seen


def test_frame_memory_gives_back_what_happened() -> None:
    """Every drawn stack, action, reward and next stack is one that was really played, across
    the ends of games and of the ring."""
    envs = AtariEnvs("BreakoutNoFrameskip-v4", 2)
    memory = FrameReplayBuffer(600, envs, CPU)
    seen = _play(memory, envs, 500)
    for _ in range(20):
        batch = memory.sample(32, Random(4))
        for row in range(32):
            key = batch.obs[row].numpy().tobytes() + bytes([int(batch.actions[row])])
            happened = (
                batch.next_obs[row].numpy().tobytes(),
                batch.rewards[row].item(),
                bool(batch.dones[row]),
            )
            assert happened in seen[key]


def test_sums_are_searched_as_a_plain_running_sum_is() -> None:
    """The tree finds the same row as searching the cumulative sum."""
    rng = np.random.default_rng(0)
    numbers = rng.random(100) * (rng.random(100) < 0.7)
    tree = SumTree(100)
    tree.set(np.arange(100), numbers)
    tree.set(np.array([7, 50, 7]), np.array([0.0, 3.0, 0.0]))
    numbers[7], numbers[50] = 0.0, 3.0
    assert tree.total == pytest.approx(numbers.sum())
    sums = rng.random(1000) * numbers.sum()
    expected = np.searchsorted(np.cumsum(numbers), sums, side="right")
    np.testing.assert_array_equal(tree.find(sums), expected)


def _rainbow_memory() -> tuple[PrioritizedFrameReplay, AtariEnvs]:
    envs = AtariEnvs("BreakoutNoFrameskip-v4", 1)
    return PrioritizedFrameReplay(300, envs, CPU, n_step=3), envs


def test_transitions_are_drawn_in_proportion_to_their_priority() -> None:
    """A surprising transition comes as much more often as it is more surprising, and its batch
    says how likely it was."""
    memory, envs = _rainbow_memory()
    _play(memory, envs, 200)
    rows = np.flatnonzero(memory._tree.values)
    memory.update_priorities(rows, np.ones(len(rows)))
    memory.update_priorities(rows[:5], np.full(5, 9.0))
    rng = Random(0)
    batches = [memory.sample(32, rng) for _ in range(300)]
    drawn = np.concatenate([batch.rows for batch in batches])
    share = np.isin(drawn, rows[:5]).mean()
    assert share == pytest.approx(45 / (45 + len(rows) - 5), abs=0.02)
    mixed = next(b for b in batches if 0 < np.isin(b.rows, rows[:5]).sum() < 32)
    often = np.isin(mixed.rows, rows[:5])
    chances = mixed.chances.numpy()
    np.testing.assert_allclose(chances[often], 9 / (45 + len(rows) - 5), rtol=1e-3)
    np.testing.assert_allclose(chances[~often], 1 / (45 + len(rows) - 5), rtol=1e-3)


def test_rewards_are_gathered_over_steps_until_the_episode_ends() -> None:
    """The rewards of n steps are those of a walk, step by step, through what was stored."""
    memory, envs = _rainbow_memory()
    _play(memory, envs, 280)
    arrays = {name: array[0] for name, array in memory._arrays.items()}
    batch = memory.sample(64, Random(0))
    for row, start in enumerate(batch.rows):
        rewards, position, done = [], start, 0.0
        for _ in range(3):
            rewards.append(arrays["rewards"][position])
            done = arrays["dones"][position]
            position = (position + 1) % 300
            if done or not arrays["begins"][position]:
                break
        assert batch.rewards[row].tolist() == rewards + [0.0] * (3 - len(rewards))
        assert batch.steps[row].item() == len(rewards)
        assert batch.dones[row].item() == done
        np.testing.assert_array_equal(batch.next_obs[row, -1].numpy(), arrays["frames"][position])
