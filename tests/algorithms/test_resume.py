"""Resume is real: a stopped and resumed run equals the uninterrupted one."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleanrl_worker.kit.schema import script_names
from cleanrl_worker.kit.verification import resume_differences, smoke_flags


@pytest.mark.parametrize("algorithm", script_names())
def test_resumed_run_equals_the_whole_run(algorithm: str, tmp_path: Path) -> None:
    """Train 2N at once, or N, stop, resume N: weights, optimiser, memory, environments agree
    to the last bit."""
    flags, half = smoke_flags(algorithm)
    assert resume_differences(algorithm, half, flags, tmp_path) == []


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
