"""What a kill leaves behind is removed, and what is in use is not."""

import os
import tempfile
from pathlib import Path

import pytest
import torch
from support.trainer import Trainer

from cleanrl_worker.config import CleanRLWorkerConfig
from cleanrl_worker.kit.errors import CheckpointError
from cleanrl_worker.modes import policy_eval
from cleanrl_worker.running.evaluation import open_policy
from spade_bdi_rl_worker.server import EmbeddedServer


def test_f24_a_half_written_checkpoint_goes_with_its_run(trainer: Trainer) -> None:
    """A file that a killed worker was still writing is gone once the run has ended."""
    run = trainer.stepping()
    folder = trainer.directory(run.run_id).path / "checkpoints"
    folder.mkdir(exist_ok=True)
    half, whole = folder / ".step-7.cleanrl_model.x1y2z3w4.tmp", folder / "step-5.cleanrl_model"
    for path in (half, whole):
        path.write_bytes(b"content")
    os.kill(run.pid, 9)
    trainer.ended(run.run_id)
    assert not half.exists()
    assert whole.exists()


def test_f25_the_folder_of_a_killed_server_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next XMPP server removes what a killed one left, and nothing that is in use."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    in_use = EmbeddedServer()
    abandoned = tmp_path / "mosaic-xmpp-killed"
    abandoned.mkdir()
    (abandoned / "in-use").touch()
    unknown = tmp_path / "mosaic-xmpp-unmarked"
    unknown.mkdir()
    other = EmbeddedServer()
    assert not abandoned.exists()
    assert len(list(tmp_path.iterdir())) == 3
    other.stop()
    in_use.stop()
    assert list(tmp_path.iterdir()) == [unknown]


def test_f35_a_checkpoint_chooses_no_module(tmp_path: Path) -> None:
    """A policy whose environment would import a module is used only when the user names it."""
    policy = tmp_path / "step-1.cleanrl_model"
    env_id = "antigravity:Odd-v0"
    torch.save({"algorithm": "ppo", "env_id": env_id, "args": {}, "model": {}}, policy)
    extras = {"mode": "policy_eval", "policy_path": str(policy)}

    def problems(**fields: str) -> list[str]:
        config = CleanRLWorkerConfig.from_document({"extras": extras, **fields})
        complete = policy_eval.complete(config, tmp_path)
        return [each.message for each in policy_eval.problems(complete, tmp_path, thorough=False)]

    (refusal,) = problems()
    assert f"--env-id {env_id}" in refusal
    assert problems(env_id=env_id) == []
    with pytest.raises(CheckpointError, match="would be imported"):
        open_policy(policy)
