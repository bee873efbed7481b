"""People in the loop: games become data sets, are cloned, and improved by PPO."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from support.trainer import Trainer
from torch import nn

from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.kit.weights import warm_start
from cleanrl_worker.tools.export import main
from cli.conftest import Command
from mosaic.config import build
from mosaic.records import RunRecord

minari: Any = pytest.importorskip("minari")
IN_TURN = "left\nright\n"


@pytest.fixture(scope="module")
def played(warm_home: Trainer) -> RunRecord:
    """A short game, played by a script of keys; it is left in the middle of an episode."""
    return _play(warm_home, IN_TURN * 40)


def _play(warm_home: Trainer, script: str) -> RunRecord:
    run = warm_home.client.submit(build.play("human", "CartPole-v1", seed=3, script=script))
    return warm_home.client.wait(run.run_id)


def _open(warm_home: Trainer, name: str) -> Any:
    return minari.MinariDataset(warm_home.home.root.parent / "datasets" / name / "data")


def test_a_game_becomes_a_data_set_and_is_cloned(
    warm_home: Trainer, typed: Command, played: RunRecord
) -> None:
    """Every step of the game is in the data set, with what came of the last one; `bc` learns it."""
    done = typed.json("export", played.run_id, "--minari", "cartpole/me-v0")
    data = _open(warm_home, "cartpole/me-v0")
    recorded = [step for batch in warm_home.client.steps(played.run_id) for step in batch.steps]
    assert done["steps"] == data.total_steps == len(recorded) == 80
    assert done["episodes"] == data.total_episodes >= 2
    assert data.env_spec.id == "CartPole-v1"
    first = next(iter(data.iterate_episodes()))
    mine = [step for step in recorded if step.episode == 0]
    np.testing.assert_array_equal(first.actions, [json.loads(step.action_json) for step in mine])
    np.testing.assert_allclose(
        first.observations[:-1], [json.loads(step.observation_json) for step in mine]
    )
    assert len(first.observations) == len(first.actions) + 1
    assert abs(first.observations[-1][2]) > 0.2, "the pole has fallen"
    assert list(first.terminations) == [False] * (len(mine) - 1) + [True]

    run = warm_home.client.train("bc", dataset="cartpole/me-v0", total_timesteps=300, num_envs=1)
    assert warm_home.client.wait(run.run_id).completed
    last = list(data.iterate_episodes())[-1]
    assert list(last.truncations)[-1], "the game was left in the middle"


def test_a_data_set_needs_a_name_of_its_own(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A name without a version and one that is taken are refused, with what to do."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    episodes = tmp_path / "episodes.jsonl"
    episode = {"observations": [[0, 0, 0, 0]] * 2, "actions": [0], "rewards": [1.0], "seed": 1}
    episodes.write_text(json.dumps({**episode, "terminated": [True], "truncated": [False]}))
    words = ["minari", "--recorded", str(episodes), "--env-id", "CartPole-v1", "--id"]
    assert main([*words, "cartpole/me"]) == 2
    assert "ends with a version" in capsys.readouterr().err
    assert main([*words, "cartpole/me-v0"]) == 0
    assert main([*words, "cartpole/me-v0"]) == 2
    assert "minari delete cartpole/me-v0" in capsys.readouterr().err
    assert main([*words[:4], "Acrobot-v1", "--id", "acrobot/me-v0"]) == 2
    assert "does not fit" in capsys.readouterr().err


def test_ppo_begins_with_the_policy_of_a_run(warm_home: Trainer, typed: Command) -> None:
    """Named by its id or `last`, a cloned policy is what PPO starts from; a stranger is refused."""
    cloned = warm_home.client.train("bc", dataset="example", total_timesteps=200)
    assert warm_home.client.wait(cloned.run_id).completed
    words = ("--num-envs", "2", "--num-steps", "64", "--learning-rate", "1e-12", "--detach")
    words = ("--total-timesteps", "128", *words, "--json")
    warm = json.loads(typed("train", "ppo", "--warm-start", cloned.run_id, *words))
    begun = warm_home.client.wait(warm["run_id"])
    assert begun.completed, begun.reason
    before, after = (_policy(warm_home.client.get(run)) for run in (cloned.run_id, begun.run_id))
    assert set(before) < set(after), "PPO has a value network beside it"
    for name, weights in before.items():
        np.testing.assert_allclose(after[name], weights, atol=1e-6, err_msg=name)
    stranger = nn.Module()
    stranger.actor = nn.Linear(6, 3)
    with pytest.raises(UsageError, match="it is a policy of bc on CartPole-v1, whose network has"):
        warm_start(cloned.run_dir, stranger)


def _policy(record: RunRecord) -> dict[str, np.ndarray]:
    from cleanrl_worker.running.evaluation import load_policy

    model = load_policy(Path(record.run_dir))["model"]["agent"]
    return {name: tensor.numpy() for name, tensor in model.items()}


def _keys_of_a_player(seed: int, episodes: int) -> str:
    """The keys that someone presses who knows how, but hits the wrong key every fourth time.

    A game with the same seed goes the same way, so its keys can be found out beforehand.
    """
    env, rng, keys = gymnasium.make("CartPole-v1"), np.random.default_rng(0), []
    for number in range(episodes):
        (_, _, angle, falling), _ = env.reset(seed=seed + number)
        over = False
        while not over:
            action = int(angle + 0.2 * falling > 0)
            if rng.random() < 0.5:
                action = int(rng.integers(2))
            keys.append(("left", "right")[action])
            (_, _, angle, falling), _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
    env.close()
    return "\n".join(keys)


@pytest.mark.prove
def test_the_lesson_works_as_written(warm_home: Trainer, typed: Command) -> None:
    """Play, clone, improve: the clone plays better than a player with clumsy hands, and PPO begins
    where the clone is and becomes good."""
    played = _play(warm_home, _keys_of_a_player(seed=3, episodes=10))
    player = played.metrics["episodic_return"]
    assert played.metrics["episodes"] == 10
    typed("export", played.run_id, "--minari", "cartpole/lesson-v0")
    typed("train", "bc", "--env-id", "CartPole-v1", "--dataset", "cartpole/lesson-v0")
    cloned = warm_home.client.get("last")
    of_clone = typed.json("eval", cloned.run_id)["evaluation"]["mean"]
    assert of_clone > 1.5 * player, (player, of_clone)
    words = ("--env-id", "CartPole-v1", "--warm-start", cloned.run_id)
    typed("train", "ppo", *words, "--total-timesteps", "50000")
    improved = warm_home.client.get("last")
    # In training actions are samples; the clone's own samples earn less than the player.
    assert improved.metrics["episodic_return"] > 1.5 * player
    of_improved = typed.json("eval", improved.run_id)["evaluation"]["mean"]
    assert of_improved > 400, (player, of_clone, of_improved)


@pytest.mark.prove
def test_continuous_actions_are_cloned_with_their_normalisation(
    warm_home: Trainer, typed: Command
) -> None:
    """A policy's episodes become a data set; the clone plays like it, and PPO begins with it."""
    expert = warm_home.client.train(
        "ppo_continuous_action", env_id="InvertedPendulum-v5", total_timesteps=30_000
    )
    expert = warm_home.client.wait(expert.run_id)
    typed("export", expert.run_id, "--minari", "pendulum/ppo-v0", "--episodes", "5")
    cloned = warm_home.client.train(
        "bc", env_id="InvertedPendulum-v5", dataset="pendulum/ppo-v0", total_timesteps=10_000
    )
    cloned = warm_home.client.wait(cloned.run_id)
    scores = [typed.json("eval", run.run_id)["evaluation"]["mean"] for run in (expert, cloned)]
    # Chance earns 6. A clone leaves the few states that a good policy stays in.
    assert scores[1] > 50, scores
    warm = warm_home.client.train(
        "ppo_continuous_action",
        env_id="InvertedPendulum-v5",
        total_timesteps=4096,
        warm_start=cloned.run_id,
    )
    warm = warm_home.client.wait(warm.run_id)
    assert warm.completed, warm.reason
