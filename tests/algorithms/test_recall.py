"""A task that needs memory is solved with memory, and not without."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cleanrl_worker.kit.envs import Envs
from cleanrl_worker.running.evaluation import evaluate
from cleanrl_worker.running.verification import train

RECALL = ["--env-id", "mosaic/Recall-v0", "--learning-rate", "1e-3", "--no-cuda"]


def _reached(run_dir: Path) -> float:
    episodes = evaluate(run_dir, episodes=40, seed=1000)
    return float(np.mean([episode.episodic_return for episode in episodes]))


@pytest.mark.prove
@pytest.mark.parametrize(("algorithm", "steps"), [("ppo_trxl", 16384), ("ppo", 32768)])
def test_only_an_agent_that_remembers_finds_the_right_end(
    algorithm: str, steps: int, tmp_path: Path
) -> None:
    """The cue is gone when the player may walk. Transformer-XL walks to the right end in at least
    nine cases of ten; plain PPO, with twice the steps, is right half of the time."""
    train(algorithm, tmp_path / "run", *RECALL, "--total-timesteps", str(steps))
    reached = _reached(tmp_path / "run")
    if algorithm == "ppo_trxl":
        assert reached >= 0.8
    else:
        assert abs(reached) <= 0.5


def test_what_is_seen_while_walking_says_nothing_about_the_cue() -> None:
    """After the cue is hidden both cues lead to the same observations, until the end."""
    seen: dict[float, set[bytes]] = {-1.0: set(), 1.0: set()}
    envs = Envs("mosaic/Recall-v0", 1)
    obs = envs.reset(seed=3)
    cue, rng = obs[0, 1], np.random.default_rng(0)
    for _ in range(600):
        if obs[0, 1]:
            cue = obs[0, 1]
        else:
            seen[float(cue)].add(obs.tobytes())
        obs, *_ = envs.step(rng.integers(2, size=1))
    assert seen[-1.0] == seen[1.0]
    envs.close()
