"""`--save-model` shows what was learned; `--upload-model` says early what it needs."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cleanrl_worker.kit.args import RunArgs
from cleanrl_worker.kit.errors import UsageError
from cleanrl_worker.running.presentation import EPISODES, refuse_upload_in_vain
from cleanrl_worker.running.verification import run_script, train


def test_a_saved_model_is_evaluated(tmp_path: Path) -> None:
    """The policy is in its own file, and `eval/episodic_return` has its episodes, by number."""
    train("ppo", tmp_path / "run", "--smoke", "--save-model")
    assert (tmp_path / "run" / "ppo.cleanrl_model").is_file()
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    points = events.Scalars("eval/episodic_return")
    assert [point.step for point in points] == list(range(EPISODES))
    assert all(point.value >= 8 for point in points), "CartPole cannot end earlier"
    assert "the saved policy reaches" in (tmp_path / "run.log").read_text()


def test_an_upload_of_nothing_is_refused_before_training(tmp_path: Path) -> None:
    """One sentence with the fix, and no hours of training before it."""
    output, run_dir = tmp_path / "log", tmp_path / "run"
    flags = ["--smoke", "--upload-model", "--run-dir", str(run_dir)]
    assert run_script("ppo", flags, output) == 2
    assert "add --save-model" in output.read_text()
    assert not run_dir.exists()


def test_an_upload_without_its_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence names the package; whether this machine happens to have it does not matter."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="needs the package huggingface_hub"):
        refuse_upload_in_vain(RunArgs(upload_model=True, save_model=True))
