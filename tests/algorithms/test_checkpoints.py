"""Checkpoints are whole, checked, safe to open, and refused when they do not fit."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from cleanrl_worker.kit.errors import CheckpointError
from cleanrl_worker.running import checked_files, checkpoint_files
from cleanrl_worker.running.evaluation import evaluate
from cleanrl_worker.running.verification import run_script, train


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run with three checkpoints."""
    run_dir = tmp_path_factory.mktemp("runs") / "trained"
    for stop in (512, 1024, 1536):
        resume = ["--resume", str(run_dir)] if stop > 512 else []
        train("ppo", run_dir, "--total-timesteps", "4096", "--stop-at", str(stop), *resume)
    return run_dir


@pytest.fixture
def run_dir(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def refused(run_dir: Path, *flags: str) -> str:
    """What a resume that must be refused prints."""
    output = run_dir / "output"
    status = run_script("ppo", ["--run-dir", str(run_dir / "more"), *flags], output)
    text = output.read_text()
    assert status == 2, text
    assert "Traceback" not in text
    return text


def newest(run_dir: Path, suffix: str = ".state") -> Path:
    return max((run_dir / "checkpoints").glob(f"*{suffix}"), key=checkpoint_files.step_of)


def test_each_checkpoint_is_a_policy_a_state_and_their_checksums(run_dir: Path) -> None:
    """Both files load without running code, and stand beside the checksum that fits them."""
    names = sorted(path.name for path in (run_dir / "checkpoints").iterdir())
    assert len(names) == 12
    for suffix in (".state", ".cleanrl_model"):
        path = newest(run_dir, suffix)
        assert checked_files.checksum_problem(path) is None
        content = torch.load(path, weights_only=True)
        assert content["algorithm"] == "ppo"
        assert content["step"] == 1536


def test_the_last_ones_are_kept(run_dir: Path) -> None:
    """Only as many checkpoints stay as were asked for."""
    flags = ["--total-timesteps", "4096", "--stop-at", "2048", "--resume", str(run_dir)]
    train("ppo", run_dir, *flags, "--keep-checkpoints", "2")
    steps = sorted(checkpoint_files.step_of(p) for p in (run_dir / "checkpoints").glob("*.state"))
    assert steps == [1536, 2048]


def test_d6_the_newest_valid_one_wins(run_dir: Path) -> None:
    """A torn newest checkpoint is passed over, and its name told."""
    torn = newest(run_dir)
    torn.write_bytes(torn.read_bytes()[:-100])
    path, passed_over = checkpoint_files.find(run_dir)
    assert checkpoint_files.step_of(path) == 1024
    assert torn.name in passed_over[0]
    assert "checksum" in passed_over[0]
    text = refused(run_dir, "--total-timesteps", "4096", "--resume", str(torn))
    assert "does not match its checksum" in text


def test_x7_a_checkpoint_cannot_run_code(run_dir: Path, tmp_path: Path) -> None:
    """A pickle that would run a program is refused, even with a checksum that fits."""

    class Hostile:
        def __reduce__(self) -> tuple:
            return os.system, (f"touch {tmp_path / 'owned'}",)

    for path in (newest(run_dir), newest(run_dir, ".cleanrl_model")):
        checked_files.write_checked(path, lambda file: pickle.dump({"model": Hostile()}, file))
    text = refused(run_dir, "--total-timesteps", "4096", "--resume", str(newest(run_dir)))
    assert "cannot be loaded safely" in text or "not a checkpoint" in text
    with pytest.raises(CheckpointError, match="safely"):
        evaluate(newest(run_dir, ".cleanrl_model"))
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--env-id", "Acrobot-v1"], ["CartPole-v1", "Acrobot-v1"]),
        (["--num-envs", "2"], ["--num-envs 4"]),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(
    flags: list[str], words: list[str], run_dir: Path
) -> None:
    """Another environment or another number of them is refused, never half loaded."""
    text = refused(run_dir, "--total-timesteps", "4096", "--resume", str(run_dir), *flags)
    assert [word for word in words if word not in text] == []


def test_another_algorithms_checkpoint_is_refused(run_dir: Path, tmp_path: Path) -> None:
    """DQN does not continue what PPO began."""
    output = tmp_path / "output"
    status = run_script("dqn", ["--resume", str(run_dir), "--run-dir", str(tmp_path / "x")], output)
    assert status == 2
    assert "'ppo'" in output.read_text()


def test_d6_killed_in_the_middle_of_saving(tmp_path: Path) -> None:
    """However a run is killed while it saves all the time, what is left resumes."""
    run_dir = tmp_path / "run"
    rng = random.Random(0)
    command = [sys.executable, "-m", "cleanrl_worker.cleanrl.ppo", "--run-dir", str(run_dir)]
    command += ["--checkpoint-interval-s", "0.001", "--num-steps", "16", "--update-epochs", "1"]
    resume: list[str] = []
    reached = []
    for _ in range(4):
        process = subprocess.Popen([*command, *resume], stdout=subprocess.DEVNULL)
        folder = run_dir / "checkpoints"
        before = {path.name for path in folder.glob("*.state")}
        while {path.name for path in folder.glob("*.state")} <= before:
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(rng.random() * 0.3)
        process.send_signal(signal.SIGKILL)
        process.wait()
        reached.append(checkpoint_files.step_of(checkpoint_files.find(run_dir)[0]))
        resume = ["--resume", str(run_dir)]
    assert reached == sorted(set(reached)), "every round went on from the one before"


def test_d1_a_full_disk_costs_a_checkpoint_not_the_run(tmp_path: Path) -> None:
    """When a save fails the run goes on, the last good checkpoint stays, and it is said."""
    run_dir = tmp_path / "run"
    train("ppo", run_dir, "--total-timesteps", "4096", "--stop-at", "512")
    limited = (
        "import resource, runpy, sys;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (40000, 40000));"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "runpy.run_module('cleanrl_worker.cleanrl.ppo', run_name='__main__', alter_sys=True)"
    )
    command = [sys.executable, "-c", limited, "--run-dir", str(run_dir), "--resume", str(run_dir)]
    command += ["--total-timesteps", "60000", "--checkpoint-interval-s", "0.1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "could not be written" in done.stderr
    assert checkpoint_files.step_of(checkpoint_files.find(run_dir)[0]) == 512
    assert not list((run_dir / "checkpoints").glob(".*.tmp"))


def test_a_checkpoint_survives_a_power_cut_at_the_price_of_three_syncs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contents are on the disk before their names, the folder last, and nothing twice."""
    synced: list[str] = []
    sync, path = os.fsync, tmp_path / "step-1.state"

    def noted(descriptor: int) -> None:
        where = os.readlink(f"/proc/self/fd/{descriptor}")
        there = [p.suffix for p in (path, checked_files.checksum_path(path)) if p.exists()]
        synced.append(f"{'folder' if where == str(tmp_path) else 'file'} with {there}")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    checked_files.write_checked(path, lambda file: file.write(b"weights"))
    assert synced == ["file with []", "file with ['.sha256']", "folder with ['.state', '.sha256']"]
    assert checked_files.checksum_problem(path) is None
