"""`--save-model` shows what was learned; `--upload-model` says early what it needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cleanrl_worker.kit.presentation import EPISODES
from cleanrl_worker.kit.verification import run_script, train


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


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--upload-model"], "add --save-model"),
        (["--upload-model", "--save-model"], "needs the package huggingface_hub"),
    ],
)
def test_an_upload_that_cannot_be_is_refused_before_training(
    flags: list[str], sentence: str, tmp_path: Path
) -> None:
    """One sentence with the fix, and no hours of training before it."""
    output = tmp_path / "log"
    assert run_script("ppo", ["--smoke", *flags, "--run-dir", str(tmp_path / "run")], output) == 2
    assert sentence in output.read_text()
    assert not (tmp_path / "run").exists()
