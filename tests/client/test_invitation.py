"""An invitation is all that a client needs, and it is kept as secret as the token in it."""

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.trainer import Trainer

from mosaic.cli.main import cli
from mosaic.client import TrainerClient
from mosaic.config.paths import HOME_VARIABLE
from mosaic.connect.invitation import Invitation
from mosaic.errors import (
    DaemonNotRunningError,
    InvalidArgumentError,
    NotOurDaemonError,
    SecretError,
)


@pytest.fixture
def invitation(trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that `mosaic invite` writes for a running daemon."""
    monkeypatch.setenv(HOME_VARIABLE, str(trainer.home.root))
    path = tmp_path / "laptop.json"
    result = CliRunner().invoke(cli, ["invite", str(path)])
    assert result.exit_code == 0, result.output
    assert f"mosaic gui --connect {path}" in result.output
    return path


def test_invited_client_needs_no_home(trainer: Trainer, invitation: Path, tmp_path: Path) -> None:
    """With nothing but the file a client reaches the daemon and can use it."""
    assert stat.S_IMODE(invitation.stat().st_mode) == 0o600
    with TrainerClient.accept(Invitation.load(invitation), str(tmp_path / "own")) as client:
        assert client.health().pid == trainer.client.health().pid
        assert client.list_runs().runs == []


def test_invitation_that_others_can_read_is_refused(invitation: Path) -> None:
    """A file that everybody can read is no secret, and the error names the command that helps."""
    invitation.chmod(0o644)
    with pytest.raises(SecretError, match="chmod 600"):
        Invitation.load(invitation)


@pytest.mark.parametrize("text", ["", "{half", "[]", '{"target": "127.0.0.1:1"}'])
def test_file_that_is_no_invitation_says_how_to_make_one(text: str, tmp_path: Path) -> None:
    """A missing, damaged or foreign file gives one sentence, never a traceback."""
    path = tmp_path / "other.json"
    with pytest.raises(SecretError, match="no invitation"):
        Invitation.load(path)
    path.touch(mode=0o600)
    path.write_text(text)
    with pytest.raises(SecretError, match="mosaic invite"):
        Invitation.load(path)


def test_a_sweep_is_not_driven_from_elsewhere(invitation: Path, tmp_path: Path) -> None:
    """It is driven beside its study: command and SDK say so before anything is started."""
    pytest.importorskip("optuna")
    from mosaic.config.build import read_config
    from mosaic.sweep.plan import SweepPlan
    from mosaic.sweep.runner import begin
    from mosaic.sweep.space import Choices

    words = ["--connect", str(invitation), "sweep", "ppo", "--param", "num-steps=32,64"]
    result = CliRunner().invoke(cli, words)
    assert isinstance(result.exception, InvalidArgumentError)
    assert "connect with ssh://USER@HOST" in str(result.exception)
    config = {"algo": "ppo", "env_id": "CartPole-v1", "seed": 1, "worker": "cleanrl"}
    plan = SweepPlan(read_config(config), True, {"num_steps": Choices((32, 64))}, trials=2)
    with TrainerClient.accept(Invitation.load(invitation), str(tmp_path / "own")) as client:
        with pytest.raises(InvalidArgumentError, match=r"where its study is; run it there"):
            begin(client, plan)
        assert client.list_runs().runs == []


def test_token_is_never_shown_to_another_daemon(invitation: Path) -> None:
    """A daemon with another token is recognised before the client shows its own."""
    document = json.loads(invitation.read_text())
    document["token"] = "another"
    invitation.write_text(json.dumps(document))
    with pytest.raises(NotOurDaemonError):
        TrainerClient.accept(Invitation.load(invitation))


def test_invitation_outlives_its_daemon(trainer: Trainer, invitation: Path) -> None:
    """Without the daemon the invited client says that none answers."""
    trainer.client.shutdown("leave")
    trainer.wait_for_death()
    with pytest.raises(DaemonNotRunningError):
        TrainerClient.accept(Invitation.load(invitation))
