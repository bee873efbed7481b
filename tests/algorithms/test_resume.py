"""Resume is real: a stopped and resumed run equals the uninterrupted one."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleanrl_worker.running.evaluation import evaluate
from cleanrl_worker.running.schema import script_names
from cleanrl_worker.running.verification import resume_differences, smoke_flags

# One file for each thing that has to be kept: a rollout, a replay memory, the state of an LSTM or a
# transformer, arrays of JAX, a learner on the device, a data set. Memories of frames and EnvPool's
# games have tests of their own. The others are resumed by `make prove`.
ONE_OF_EACH = {
    "bc",
    "dqn",
    "dqn_jax",
    "ppo",
    "ppo_atari_lstm",
    "ppo_continuous_action",
    "ppo_ondevice",
    "ppo_trxl",
    "pqn",
    "sac_continuous_action",
}
RESUMED = [
    name if name in ONE_OF_EACH else pytest.param(name, marks=pytest.mark.prove)
    for name in script_names()
]


@pytest.mark.parametrize("algorithm", RESUMED)
def test_every_script_trains_resumes_exactly_and_can_be_evaluated(
    algorithm: str, tmp_path: Path
) -> None:
    """Train 2N at once, or N, stop, resume N: weights, optimiser, memory, environments agree
    to the last bit. The run leaves event files, and a policy that plays episodes."""
    flags, half = smoke_flags(algorithm)
    assert resume_differences(algorithm, half, flags, tmp_path) == []
    whole = tmp_path / "whole"
    assert list((whole / "tensorboard").glob("events.out.tfevents.*"))
    episodes = evaluate(whole, episodes=2, max_steps=40)
    assert len(episodes) == 2
    assert all(0 < episode.length <= 40 for episode in episodes)
    assert len(evaluate(whole, episodes=1, max_steps=10, deterministic=False)) == 1


@pytest.mark.parametrize(
    "env_id",
    ["LunarLander-v3", "Taxi-v4", "FrozenLake-v1", "MiniGrid-DoorKey-5x5-v0", "BabyAI-GoToObj-v0"],
)
def test_every_family_of_environments_is_brought_back(env_id: str, tmp_path: Path) -> None:
    """Physics, tables and grids continue in the middle of an episode."""
    flags = ["--env-id", env_id, "--num-envs", "2", "--num-steps", "64"]
    assert resume_differences("ppo", 256, flags, tmp_path) == []


def test_mujoco_is_brought_back(tmp_path: Path) -> None:
    """The simulator's hidden state returns too, and the normalisation with it."""
    flags = ["--env-id", "Hopper-v5", "--num-steps", "256", "--num-minibatches", "8"]
    assert resume_differences("ppo_continuous_action", 512, flags, tmp_path) == []
