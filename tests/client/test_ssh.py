"""A daemon behind ssh: reached by its address, kept, and nothing left when it is not needed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sshd import MOSAIC, Sshd, command_of, sshd_at
from support.trainer import Trainer, until

from mosaic.client import TrainerClient
from mosaic.connect.endpoint import find_endpoint
from mosaic.connect.remote_home import SSH_VARIABLE, RemoteHome
from mosaic.connect.session import explain
from mosaic.errors import DaemonNotRunningError, InvalidArgumentError, UnreachableError


@pytest.fixture
def sshd(trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    """A server whose accounts have the environment of the trainer's daemon."""
    folder = tmp_path / "sshd"
    folder.mkdir()
    variables = {
        name: value
        for name, value in trainer.environment().items()
        if name == "PYTHONPATH" or name.startswith("MOSAIC_SETTING_")
    }
    with sshd_at(folder, variables) as server:
        monkeypatch.setenv(SSH_VARIABLE, server.command())
        yield server


def _left_there(trainer: Trainer) -> list[int]:
    """What tunnels have started at the other end and is still alive."""
    return [pid for pid in trainer.processes() if "reach" in command_of(pid)]


def test_home_behind_ssh_is_used_like_one_here(sshd: Sshd, trainer: Trainer) -> None:
    """Submit, follow, read a file; one ssh process for several clients, none after the last."""
    address = sshd.address(trainer.home.root)
    with TrainerClient.connect(address) as client, TrainerClient.connect(address) as second:
        assert len(sshd.clients()) == 1
        assert client.elsewhere is not None
        assert second.health().pid == trainer.pid
        run = client.submit({"algo": "example", "worker": "example", "total_timesteps": 20})
        assert client.wait(run.run_id).outcome == "completed"
        assert client.config(run.run_id)
        assert [record.run_id for record in second.list_runs().runs] == [run.run_id]
    until(lambda: not sshd.clients(), "no ssh process is left")
    until(lambda: not _left_there(trainer), "nothing is left on the server")


def test_tunnel_is_made_again(sshd: Sshd, trainer: Trainer) -> None:
    """A run is followed to its end although its tunnel is killed and its daemon moves."""
    with TrainerClient.connect(sshd.address(trainer.home.root)) as client:
        run = trainer.stepping()
        seen = client.follow(run.run_id)
        next(seen)
        for pid in sshd.clients():
            os.kill(pid, signal.SIGKILL)
        trainer.kill()
        trainer.start()
        trainer.client.cancel(run.run_id, grace_s=1.0)
        assert [record.outcome for record in seen][-1] == "cancelled"
        assert client.health().pid == trainer.pid
    until(lambda: not sshd.clients(), "no ssh process is left")


def test_killed_command_leaves_no_ssh(sshd: Sshd, trainer: Trainer) -> None:
    """Nobody is left to clean up after `kill -9`; the tunnel still ends, at both its ends."""
    process = subprocess.Popen(
        [MOSAIC, "--connect", sshd.address(trainer.home.root), "watch", "--json"],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline()
        assert sshd.clients()
        process.kill()
        process.wait()
    until(lambda: not sshd.clients(), "its ssh has ended")
    until(lambda: not _left_there(trainer), "nothing is left on the server")


def test_commands_work_on_the_other_home(sshd: Sshd, trainer: Trainer, tmp_path: Path) -> None:
    """Start, look, submit and stop from here; the home of this machine is not touched."""
    trainer.client.shutdown("leave")
    trainer.wait_for_death()
    own = tmp_path / "own"

    def mosaic(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [MOSAIC, "--connect", sshd.address(trainer.home.root), *words],
            env={**os.environ, "MOSAIC_HOME": str(own)},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip

    away = mosaic("status")
    assert away.returncode == 3
    assert "no daemon" in away.stderr or "is gone" in away.stderr
    assert "mosaic --connect ssh://" in away.stderr
    assert "up" in away.stderr
    up = mosaic("up")
    assert up.returncode == 0, up.stderr
    assert str(trainer.home.root) in up.stdout
    status = json.loads(mosaic("status", "--json").stdout)
    assert status["running"]
    down = mosaic("down")
    assert down.returncode == 0, down.stderr
    assert "daemon stopped" in down.stdout
    assert not own.exists()


def test_daemon_is_started_there(sshd: Sshd, trainer: Trainer) -> None:
    """`start=True` means the other machine's daemon, and waiting for it."""
    trainer.client.shutdown("leave")
    trainer.wait_for_death()
    address = sshd.address(trainer.home.root)
    with pytest.raises(DaemonNotRunningError, match="start one from here: mosaic --connect ssh://"):
        TrainerClient.connect(address)
    with TrainerClient.connect(address, start=True) as client:
        assert client.health().pid == find_endpoint(trainer.home).pid
        client.shutdown("leave")
    until(lambda: not trainer.processes(), "the daemon has ended, and with it all of the tunnel")


def test_refusals_say_what_to_do(
    sshd: Sshd, trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused key, an unknown host, no mosaic, no server: each in a sentence with its remedy."""
    home = trainer.home.root
    for command, program, message in (
        (sshd.command(key="stranger"), MOSAIC, "refuses your key; .*ssh-copy-id"),
        (sshd.command(known="nobody"), MOSAIC, "not known to this machine yet; .*fingerprint"),
        (sshd.command(), "/no/mosaic", "no mosaic on .*/no/mosaic is not there"),
        (sshd.command(), "/bin/false", "ended with exit code 1"),
        ("no-such-ssh", MOSAIC, "install the OpenSSH client"),
    ):
        monkeypatch.setenv(SSH_VARIABLE, command)
        with pytest.raises(UnreachableError, match=message):
            TrainerClient.connect(sshd.address(home, program))
    monkeypatch.setenv(SSH_VARIABLE, sshd.command())
    sshd.stop()
    with pytest.raises(UnreachableError, match="Connection refused; try: ssh"):
        TrainerClient.connect(sshd.address(home))
    until(lambda: not sshd.clients(), "no ssh process is left")


def test_refused_key_is_not_tried_again_at_once(
    sshd: Sshd, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers lock out who knocks too often; a window asks the tunnel again every two seconds."""
    from mosaic.connect import tunnel

    monkeypatch.setenv(SSH_VARIABLE, sshd.command(key="stranger"))
    way = tunnel.borrow(RemoteHome.parse(sshd.address(trainer.home.root)))
    try:
        with pytest.raises(UnreachableError) as first:
            way.reach()
        monkeypatch.setenv(SSH_VARIABLE, sshd.command())
        with pytest.raises(UnreachableError) as again:
            way.reach()
        assert again.value is first.value
        assert way.reach(start=True).token == trainer.home.token.read_bytes(), "who asks is served"
    finally:
        way.release()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("ssh://box", RemoteHome("box")),
        ("ssh://me@box", RemoteHome("box", "me")),
        ("ssh://me@box:2222/srv/lab/", RemoteHome("box", "me", 2222, "/srv/lab")),
        ("ssh://me@box/~/lab", RemoteHome("box", "me", None, "~/lab")),
        ("ssh://me@[::1]:22/", RemoteHome("::1", "me", 22)),
        ("ssh://box?mosaic=/opt/m", RemoteHome("box", program="/opt/m")),
        ("ssh://me%40work.org@box", RemoteHome("box", "me@work.org")),
    ],
)
def test_addresses_are_read(text: str, place: RemoteHome) -> None:
    """Account, port and folder are optional; `~` is the folder of that account."""
    assert RemoteHome.parse(text) == place
    assert RemoteHome.parse(str(place)) == place


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("http://box", "does not begin with ssh://"),
        ("ssh://", "names no account"),
        ("ssh://-oProxyCommand=x", "names no account"),
        ("ssh://-lroot@box", "names no account"),
        ("ssh://me:secret@box", "only keys"),
        ("ssh://box:seven", "no valid port"),
        ("ssh://box?mosiac=/x", "did you mean 'mosaic'"),
    ],
)
def test_wrong_addresses_are_refused(text: str, message: str) -> None:
    """Nothing that is typed becomes an option of ssh; each refusal shows a proper address."""
    with pytest.raises(InvalidArgumentError, match=message):
        RemoteHome.parse(text)


def test_paths_are_safe_in_the_other_shell(tmp_path: Path) -> None:
    """A home with spaces and quotes is one word there, and `~` is expanded there."""
    program = tmp_path / "mosaic"
    program.write_text('#!/bin/sh\nprintf "%s|" "$MOSAIC_HOME" "$@"\n')
    program.chmod(0o755)
    place = RemoteHome("box", home="~/a b'; $(rm)", program=str(program))
    done = subprocess.run(
        ["/bin/sh", "-c", place.there(["x y", "'"])],
        env={"HOME": "/home/me"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "/home/me/a b'; $(rm)|x y|'|"


def test_changed_host_key_is_no_unknown_host() -> None:
    """Something else may answer in the server's place: the user is not sent to accept it."""
    said = "@@@\nREMOTE HOST IDENTIFICATION HAS CHANGED!\nHost key verification failed.\n"
    text = str(explain(RemoteHome("box"), 255, said.replace("REMOTE", "WARNING: REMOTE")))
    assert "another key than before" in text
    assert "ssh-keygen -R box" in text


def test_the_other_end_hears_every_line_and_is_heard_between_them() -> None:
    """Its empty lines let sshd find out that a machine has vanished; the last line may be open."""
    program = (
        "from mosaic.connect import far_end\n"
        "far_end._QUIET_S = 0.1\n"
        "for line in far_end.questions():\n"
        "    print(f'<{line}>', flush=True)\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdin is not None
    assert other.stdout is not None
    assert other.stdout.readline() == "\n"
    other.stdin.write("one\ntw")
    other.stdin.flush()
    said = [other.stdout.readline() for _ in range(3)]
    rest, _ = other.communicate("o\nopen")
    assert [line for line in [*said, *rest.splitlines(True)] if line.strip()] == [
        "<one>\n",
        "<two>\n",
        "<open>\n",
    ]
    assert other.returncode == 0
