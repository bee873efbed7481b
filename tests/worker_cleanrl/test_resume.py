"""Resuming through the worker: as if the run had never stopped, or a refusal."""

from __future__ import annotations

import os
import pickle
import shutil
import zipfile
from pathlib import Path

import pytest
import torch
from support import harness

BUFFER = ["--learning-starts", "100", "--buffer-size", "1000"]
SHORT = {
    "ppo": ("CartPole-v1", 1024, ["--num-steps", "64"]),
    "dqn": ("CartPole-v1", 600, BUFFER),
    "c51": ("CartPole-v1", 400, BUFFER),
    "sac_continuous_action": ("Pendulum-v1", 240, BUFFER),
    "td3_continuous_action": ("Pendulum-v1", 240, BUFFER),
}


@pytest.mark.parametrize("algorithm", SHORT)
def test_a_stopped_and_resumed_run_equals_the_uninterrupted_one(
    algorithm: str, tmp_path: Path
) -> None:
    """Weights, optimiser, memory and environments agree to the last bit."""
    env_id, total, flags = SHORT[algorithm]
    common = ("--algo", algorithm, "--env-id", env_id, "--total-timesteps", str(total))
    harness.run(tmp_path / "whole", *common, "--", *flags)
    half = tmp_path / "half"
    harness.run(half, *common, "--", *flags, "--stop-at", str(total // 2))
    assert harness.newest_state(half)["step"] == total // 2
    harness.run(tmp_path / "rest", "--resume", str(half), "--total-timesteps", str(total))
    whole, rest = harness.newest_state(tmp_path / "whole"), harness.newest_state(tmp_path / "rest")
    assert rest["step"] == whole["step"] == total
    for part in ("policy", "objects", "random"):
        assert harness.equal(whole[part], rest[part]), part


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short finished run of PPO."""
    run_dir = tmp_path_factory.mktemp("trained") / "run"
    harness.run(run_dir, "--algo", "ppo", "--env-id", "CartPole-v1", "--total-timesteps", "512")
    return run_dir


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may damage."""
    return Path(shutil.copytree(trained, tmp_path / "copy"))


def test_the_settings_of_the_earlier_run_are_kept(tmp_path: Path) -> None:
    """A checkpoint brings its own hyperparameters; what is given anew wins."""
    flags = ("--num-envs", "2", "--num-steps", "64", "--ent-coef", "0.2")
    first = ("--algo", "ppo", "--env-id", "CartPole-v1", "--total-timesteps", "256")
    harness.run(tmp_path / "first", *first, "--", *flags)
    second = ("--algo", "ppo", "--resume", str(tmp_path / "first"), "--total-timesteps", "512")
    harness.run(tmp_path / "second", *second, "--", "--ent-coef", "0.1")
    args = harness.newest_state(tmp_path / "second")["args"]
    assert (args["num_envs"], args["num_steps"], args["ent_coef"]) == (2, 64, 0.1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--env-id", "Acrobot-v1", "--total-timesteps", "1024"), "environment 'CartPole-v1'"),
        (("--algo", "dqn", "--total-timesteps", "1024"), "algorithm 'ppo'"),
        (("--total-timesteps", "512"), "already reached step 512"),
        (("--algo", "cleanrl:ppo", "--total-timesteps", "1024"), "cleanrl:ppo"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(
    trained: Path, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    """Before anything starts, with the reason."""
    for how in ((), ("--dry-run",)):
        said = harness.refuse(tmp_path / "no", "--resume", str(trained), *arguments, *how)
        assert sentence in said
    assert not (tmp_path / "no").exists()


def test_a_policy_alone_gives_its_weights(copied: Path, tmp_path: Path) -> None:
    """It is said that all else starts fresh; beside its full state the policy's name means that."""
    policy = next(copied.glob("checkpoints/*.cleanrl_model"))
    again = ("--resume", str(policy), "--total-timesteps", "1024")
    assert ".state" in harness.run(tmp_path / "yes", *again, "--dry-run").said()
    own = tmp_path / "mine.cleanrl_model"
    own.write_bytes(policy.read_bytes())
    steps = ("--total-timesteps", "512", "--", "--learning-rate", "1e-30")
    worker = harness.run(tmp_path / "run", "--algo", "ppo", "--resume", str(own), *steps)
    assert "only the weights of mine.cleanrl_model are used" in worker.said()
    state = harness.newest_state(tmp_path / "run")
    assert state["step"] == 512, "counted from the beginning of this run"
    before = harness.newest_state(copied)["policy"]["agent"]
    after = state["policy"]["agent"]
    # So small a rate changes no weight: what is saved is what was loaded.
    assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in before)
    other = ("--algo", "dqn", "--env-id", "CartPole-v1", "--total-timesteps", "900")
    said = harness.refuse(tmp_path / "no", *other, "--resume", str(own))
    assert "is a checkpoint of the algorithm 'ppo'" in said


def test_damaged_checkpoints_are_passed_over_or_refused(copied: Path, tmp_path: Path) -> None:
    """In a folder the newest valid one is taken; a damaged file that was named is refused."""
    good = next(copied.glob("checkpoints/*.state"))
    newer = good.with_name("step-900.state")
    newer.write_bytes(good.read_bytes()[:-1000])
    newer.with_name("step-900.state.sha256").write_text(f"{'0' * 64}  step-900.state\n")
    again = ("--algo", "ppo", "--env-id", "CartPole-v1", "--total-timesteps", "1024")
    worker = harness.run(tmp_path / "on", *again, "--resume", str(copied))
    assert "passed over: step-900.state does not match its checksum" in worker.said()
    assert harness.newest_state(tmp_path / "on")["step"] == 1024
    said = harness.refuse(tmp_path / "no", *again, "--resume", str(newer), "--dry-run")
    assert "checksum" in said


def test_x07_a_hostile_checkpoint_runs_nothing(copied: Path, tmp_path: Path) -> None:
    """A pickle that would run a command is refused, also when its checksum is right."""
    canary = tmp_path / "canary"
    good = next(copied.glob("checkpoints/*.state"))
    evil = good.with_name("step-999.state")
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(evil, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            target.writestr(name, _command(canary) if name.endswith("data.pkl") else content)
    _seal(evil)
    plain = tmp_path / "plain.cleanrl_model"
    plain.write_bytes(_command(canary))
    resume = ("--algo", "ppo", "--env-id", "CartPole-v1", "--total-timesteps", "2048")
    said = harness.refuse(tmp_path / "a", *resume, "--resume", str(evil))
    assert "not plain data" in said
    said = harness.refuse(tmp_path / "b", "--policy", str(plain))
    assert "is not a checkpoint that can be read" in said
    # Past the worker's own check the training process refuses it too.
    with pytest.raises(Exception, match="loaded safely"):
        harness.newest_state(copied)
    assert not canary.exists()


class _Command:
    def __init__(self, canary: Path) -> None:
        self._canary = canary

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self._canary}",)


def _command(canary: Path) -> bytes:
    return pickle.dumps({"algorithm": "ppo", "objects": _Command(canary)}, protocol=2)


def _seal(path: Path) -> None:
    from cleanrl_worker.running import checked_files

    content = path.read_bytes()
    checked_files.write_checked(path, lambda file: file.write(content))


def test_what_is_read_without_torch_is_what_torch_reads(trained: Path) -> None:
    """The worker's own reader of checkpoints agrees with the training process."""
    from cleanrl_worker.running.checkpoint_files import describe

    path = next(trained.glob("checkpoints/*.state"))
    info, state = describe(path), torch.load(path, weights_only=True)
    assert (info.algorithm, info.env_id, info.step) == ("ppo", "CartPole-v1", 512)
    assert info.args == state["args"]
    assert info.full
