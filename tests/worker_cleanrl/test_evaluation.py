"""Evaluating a policy: honest numbers, files where people look for them, clear refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from support import harness
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mosaic.statistics.aggregates import iqm
from mosaic.statistics.episodes import summarise_returns


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short finished run of PPO."""
    run_dir = tmp_path_factory.mktemp("trained") / "run"
    harness.run(run_dir, "--algo", "ppo", "--env-id", "CartPole-v1", "--total-timesteps", "4096")
    return run_dir


def test_a_run_is_evaluated_with_summary_charts_and_video(trained: Path, tmp_path: Path) -> None:
    """`eval_summary.json`, TensorBoard `eval/*`, a video and the metrics on the bridge agree."""
    config = tmp_path / "config.json"
    extras = {
        "mode": "policy_eval",
        "policy_path": str(trained),
        "eval_episodes": 6,
        "gamma": 0.9,
        "capture_video": True,
    }
    config.write_text(json.dumps({"extras": extras, "seed": 5}))
    run_dir = tmp_path / "run"
    worker = harness.run(run_dir, "--config", str(config))
    summary = json.loads((run_dir / "eval_summary.json").read_text())
    returns = summary["returns"]
    assert (len(returns), summary["episodes"], summary["gamma"]) == (6, 6, 0.9)
    assert summary["mean"] == pytest.approx(np.mean(returns))
    assert (
        summary["iqm_confidence_interval"][0]
        <= summary["iqm"]
        <= summary["iqm_confidence_interval"][1]
    )
    assert summary["discounted_return_mean"] <= 10.0
    last = worker.events("metrics")[-1]
    assert (last["step"], last["total"]) == (6, 6)
    assert last["values"]["episodic_return"] == pytest.approx(summary["mean"])
    scalars = EventAccumulator(str(run_dir / "tensorboard")).Reload()
    curve = [point.value for point in scalars.Scalars("eval/episodic_return")]
    assert curve == pytest.approx(returns)
    assert scalars.Scalars("eval/iqm")[-1].value == pytest.approx(summary["iqm"])
    artifacts = json.loads((run_dir / "analytics.json").read_text())["artifacts"]
    assert artifacts["evaluation"] == ["eval_summary.json"]
    assert artifacts["videos"]
    assert all((run_dir / video).stat().st_size > 1000 for video in artifacts["videos"])


def test_the_same_seed_gives_the_same_episodes_and_steps_can_be_limited(
    trained: Path, tmp_path: Path
) -> None:
    """An evaluation can be repeated exactly, and cut."""
    summaries = []
    for name in ("a", "b"):
        harness.run(tmp_path / name, "--policy", str(trained), "--episodes", "4")
        summaries.append(json.loads((tmp_path / name / "eval_summary.json").read_text()))
    assert summaries[0]["returns"] == summaries[1]["returns"]
    config = tmp_path / "config.json"
    extras = {"mode": "policy_eval", "policy_path": str(trained), "eval_max_steps": 5}
    config.write_text(json.dumps({"extras": extras}))
    harness.run(tmp_path / "cut", "--config", str(config), "--episodes", "3")
    summary = json.loads((tmp_path / "cut" / "eval_summary.json").read_text())
    assert (summary["returns"], summary["episodes_cut"]) == ([5.0] * 3, 3)


def test_each_episode_can_have_a_seed_that_other_agents_play_too(
    trained: Path, tmp_path: Path
) -> None:
    """With `eval_each_seed` an episode depends on its own seed, not on those before it."""
    found = {}
    for first, episodes in ((5, 3), (6, 2)):
        config = tmp_path / f"{first}.json"
        extras = {"mode": "policy_eval", "policy_path": str(trained), "eval_each_seed": True}
        config.write_text(json.dumps({"extras": extras, "seed": first}))
        run_dir = tmp_path / str(first)
        harness.run(run_dir, "--config", str(config), "--episodes", str(episodes))
        summary = json.loads((run_dir / "eval_summary.json").read_text())
        found[first] = dict(zip(summary["seeds"], summary["returns"], strict=True))
    assert list(found[5]) == [5, 6, 7]
    assert {seed: found[5][seed] for seed in (6, 7)} == found[6]


def test_repeating_goes_on_until_stopped_and_keeps_what_it_saw(
    trained: Path, tmp_path: Path
) -> None:
    """`repeat` plays round after round; stopping it leaves a summary of all of them."""
    config = tmp_path / "config.json"
    extras = {
        "mode": "policy_eval",
        "policy_path": str(trained),
        "eval_episodes": 2,
        "repeat": True,
    }
    config.write_text(json.dumps({"extras": extras}))
    worker = harness.start(tmp_path / "run", "--config", str(config))
    worker.wait_for("metrics", count=2)
    worker.stop()
    assert worker.wait() == 143
    assert json.loads((tmp_path / "run" / "eval_summary.json").read_text())["episodes"] > 2


def test_a_plain_state_dict_of_upstream_is_evaluated_where_it_fits(
    trained: Path, tmp_path: Path
) -> None:
    """Upstream saves bare tensors; told what they are, the worker plays them the same."""
    policy = next(trained.glob("checkpoints/*.cleanrl_model"))
    content = torch.load(policy, weights_only=True)
    plain = tmp_path / "ppo.cleanrl_model"
    torch.save(content["model"]["agent"], plain)
    told = ("--algo", "ppo", "--env-id", "CartPole-v1", "--episodes", "3")
    harness.run(tmp_path / "plain", "--policy", str(plain), *told)
    harness.run(tmp_path / "own", "--policy", str(policy), "--episodes", "3")
    plain_result, own_result = (
        json.loads((tmp_path / name / "eval_summary.json").read_text()) for name in ("plain", "own")
    )
    assert plain_result["returns"] == own_result["returns"]
    # As a run of an upstream script names its folder and itself.
    told = ("--algo", "cleanrl:ppo", "--env-id", "CartPole-v1", "--episodes", "3")
    harness.run(tmp_path / "upstream", "--policy", str(plain.parent), *told)
    upstream = json.loads((tmp_path / "upstream" / "eval_summary.json").read_text())
    assert upstream["returns"] == own_result["returns"]
    assert "give 'algo' and 'env_id'" in harness.refuse(tmp_path / "no", "--policy", str(plain))
    wrong = ("--algo", "dqn", "--env-id", "CartPole-v1")
    worker = harness.start(tmp_path / "dqn", "--policy", str(plain), *wrong)
    assert worker.wait() == 1
    assert "does not fit" in worker.events("run_failed")[0]["reason"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--env-id", "CartPol-v1"), "did you mean 'CartPole-v1'"),
        (("--algo", "dqn"), "was trained by ppo"),
        (("--env-id", "Pendulum-v1"), "discrete actions"),
        (("--env-id", "Acrobot-v1"), "differ from those of CartPole-v1"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(
    trained: Path, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    """Before anything is started."""
    assert sentence in harness.refuse(tmp_path / "no", "--policy", str(trained), *arguments)


def test_the_interquartile_mean_is_the_mean_of_the_middle_half() -> None:
    """It ignores outliers, is the one of `mosaic compare`, and its interval holds it."""
    assert summarise_returns([0.0, 1.0, 2.0, 1000.0], 1)["iqm"] == pytest.approx(1.5)
    assert summarise_returns([7.0], 1)["iqm"] == pytest.approx(7.0)
    for count in range(1, 14):
        returns = np.random.default_rng(count).normal(size=count)
        assert summarise_returns(list(returns), 1)["iqm"] == pytest.approx(iqm([returns]))
    summary = summarise_returns([float(value) for value in range(100)], seed=1)
    assert summary["iqm"] == pytest.approx(49.5)
    assert summary["iqm_confidence_interval"][0] < 49.5 < summary["iqm_confidence_interval"][1]
