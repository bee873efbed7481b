"""The core algorithms learn: a short real run gets far beyond chance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cleanrl_worker.kit.evaluation import evaluate
from cleanrl_worker.kit.verification import train

CARTPOLE_Q = "--learning-starts 1000 --exploration-fraction 0.3 --target-network-frequency 250"
PENDULUM = "--env-id Pendulum-v1 --buffer-size 10000 --gamma 0.98 --batch-size 64"
NOISY = f"{PENDULUM} --learning-starts 1000 --exploration-noise 0.3 --learning-rate 1e-3"

RUNS = [
    ("ppo", "--total-timesteps 40000", 195.0),
    ("pqn", "--total-timesteps 60000 --learning-rate 1e-3 --exploration-fraction 0.3", 120.0),
    ("dqn", f"--total-timesteps 25000 {CARTPOLE_Q} --learning-rate 1e-3", 120.0),
    ("c51", f"--total-timesteps 20000 {CARTPOLE_Q} --learning-rate 1e-3", 100.0),
    ("ppo_continuous_action", "--total-timesteps 24576 --env-id InvertedPendulum-v5", 100.0),
    ("rpo_continuous_action", "--total-timesteps 24576 --env-id InvertedPendulum-v5", 60.0),
    ("ddpg_continuous_action", f"--total-timesteps 7000 {NOISY}", -500.0),
    ("td3_continuous_action", f"--total-timesteps 7000 {NOISY}", -500.0),
    ("sac_continuous_action", f"--total-timesteps 4000 {PENDULUM} --learning-starts 500", -500.0),
]


@pytest.mark.parametrize(("algorithm", "flags", "wanted"), RUNS)
def test_a_short_run_learns(algorithm: str, flags: str, wanted: float, tmp_path: Path) -> None:
    """The greedy policy's average return is far above that of random play (about 22 in CartPole,
    6 in InvertedPendulum, -1230 in Pendulum)."""
    train(algorithm, tmp_path / "run", *flags.split())
    episodes = evaluate(tmp_path / "run", episodes=10, seed=1000)
    assert np.mean([episode.episodic_return for episode in episodes]) >= wanted
