"""`--save-model` shows what was learned; `--upload-model` says early what it needs."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.hub import a_hub
from support.patience import PATIENCE_S
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


def _trained_and_uploaded(run_dir: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cleanrl_worker.cleanrl.ppo", "--smoke", "--run-dir", run_dir]
    return subprocess.run(
        [*command, "--save-model", "--upload-model"],
        env={**os.environ, "HF_HOME": str(run_dir.parent), **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def test_a_policy_is_uploaded_where_a_hub_is(tmp_path: Path) -> None:
    """The very file that was saved, and a page that says what it was trained on and reaches."""
    pytest.importorskip("huggingface_hub")
    with a_hub() as hub:
        trained = _trained_and_uploaded(tmp_path / "run", **hub.environment)
    assert trained.returncode == 0, trained.stderr
    (name, files) = hub.repositories.popitem()
    assert name == "ada/CartPole-v1-ppo-seed1"
    assert files["ppo.cleanrl_model"] == (tmp_path / "run" / "ppo.cleanrl_model").read_bytes()
    card = files["README.md"].decode()
    assert "Trained by `ppo` on `CartPole-v1` with seed 1." in card
    assert "Mean return of 10 episodes: " in card
    assert f"the policy was uploaded to {hub.address}/{name}" in trained.stderr


def _the_upload_alone_is_missing(
    trained: subprocess.CompletedProcess[str], run_dir: Path, why: str
) -> None:
    assert trained.returncode == 0, trained.stderr
    assert (run_dir / "ppo.cleanrl_model").is_file()
    (said,) = [line for line in trained.stderr.splitlines() if "was not uploaded" in line]
    assert why in said
    assert said.endswith(f"it is in {run_dir / 'ppo.cleanrl_model'}")
    assert "Traceback" not in trained.stderr


def test_a_hub_out_of_reach_costs_nothing_but_the_upload(tmp_path: Path) -> None:
    """The run succeeds, and one sentence says why there is no upload and where the policy is."""
    pytest.importorskip("huggingface_hub")
    with a_hub() as hub:
        environment = hub.environment
    trained = _trained_and_uploaded(tmp_path / "run", **environment)
    _the_upload_alone_is_missing(trained, tmp_path / "run", "Connection refused")


def test_a_hub_that_knows_nobody_of_that_token_costs_no_more(tmp_path: Path) -> None:
    """The hub's own words say that the login is wrong."""
    pytest.importorskip("huggingface_hub")
    with a_hub() as hub:
        environment = {**hub.environment, "HF_TOKEN": "hf_of_someone_else"}
        trained = _trained_and_uploaded(tmp_path / "run", **environment)
    _the_upload_alone_is_missing(trained, tmp_path / "run", "Invalid user token")
