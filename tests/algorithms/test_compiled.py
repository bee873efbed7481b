"""`--compile` makes a run quicker and changes nothing else about it."""

from __future__ import annotations

from pathlib import Path

import torch

from cleanrl_worker.running import checkpoint_files, checkpoints
from cleanrl_worker.running.verification import train


def _weights(run_dir: Path) -> dict[str, torch.Tensor]:
    return checkpoints.load(checkpoint_files.find(run_dir)[0])["policy"]["agent"]


def test_a_compiled_run_learns_what_a_plain_one_learns(tmp_path: Path) -> None:
    """Two rollouts and their 32 updates end in the same weights, up to rounding."""
    train("ppo", tmp_path / "plain", "--total-timesteps", "1024")
    train("ppo", tmp_path / "compiled", "--total-timesteps", "1024", "--compile")
    plain, compiled = _weights(tmp_path / "plain"), _weights(tmp_path / "compiled")
    assert plain.keys() == compiled.keys()
    for name, weight in plain.items():
        torch.testing.assert_close(compiled[name], weight, rtol=1e-4, atol=1e-5, msg=name)
