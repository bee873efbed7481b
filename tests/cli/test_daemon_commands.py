"""Starting, stopping and asking after the daemon from the command line."""

import json
from collections.abc import Callable
from pathlib import Path

from cli.conftest import Command
from mosaic.connect.endpoint import Address
from mosaic.connect.invitation import Invitation


def test_up_status_down(make_command: Callable[..., Command]) -> None:
    """A user starts the daemon, sees it, starts it again without harm, and stops it."""
    mosaic = make_command()
    started = mosaic.json("up", "--port", "0")
    assert started["new"]
    assert mosaic.json("up")["pid"] == started["pid"]
    status = mosaic.json("status")
    assert status["running"]
    assert status["pid"] == started["pid"]
    assert "serving" in mosaic("status")
    assert mosaic.json("down")["stopped"] == started["pid"]
    assert mosaic.json("status", code=3) == {"running": False, "home": started["home"]}


def test_every_command_says_that_no_daemon_runs(make_command: Callable[..., Command]) -> None:
    """Without a daemon a command exits 3 and names the command that starts one."""
    mosaic = make_command()
    for words in (("runs",), ("show", "last"), ("train", "ppo"), ("down",), ("cancel", "last")):
        assert "mosaic up" in mosaic(*words, code=3)


def test_a_home_may_ask_for_its_daemon_to_start_when_needed(
    make_command: Callable[..., Command], tmp_path: Path
) -> None:
    """With `auto_start` in its settings `mosaic train` starts the daemon of a home, and no other's.

    Commands that only look start nothing.
    """
    mosaic = make_command(port="0")
    train = ("train", "example", "--total-timesteps", "20")
    assert "or use --start" in mosaic(*train, code=3)
    home = Path(mosaic.environment["MOSAIC_HOME"])
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "settings.json").write_text(json.dumps({"auto_start": True}))
    (home / "settings.json").chmod(0o600)
    invitation = tmp_path / "gone.json"
    Invitation(Address("127.0.0.1:1"), b"token").save(invitation)
    elsewhere = Command({**mosaic.environment, "MOSAIC_CONNECT": str(invitation)})
    elsewhere(*train, code=3)
    mosaic("runs", code=3)
    assert not mosaic.json("status", code=3)["running"]
    try:
        assert mosaic.json(*train)["outcome"] == "completed"
        assert mosaic.json("status")["running"]
    finally:
        mosaic("down", "--stop-runs")


def test_an_asked_port_that_is_taken_is_refused(make_command: Callable[..., Command]) -> None:
    """A port somebody else uses gives a clear refusal, not a daemon on another one."""
    first, second = make_command(name="first"), make_command(name="second")
    port = first.json("up", "--port", "0")["target"].rpartition(":")[2]
    try:
        assert f"port {port}" in second("up", "--port", port, code=2)
    finally:
        first("down")


def test_doctor_reports_what_is_there_and_what_is_missing(mosaic: Command) -> None:
    """The doctor finds the daemon and the sound workers, and exits 1 for one that is broken."""
    findings = {item["what"]: item for item in mosaic.json("doctor", code=1)}
    assert findings["worker broken_package"]["level"] == "bad"
    assert findings["daemon"]["level"] == "ok"
    assert findings["worker cleanrl"]["level"] == "ok"
    assert findings["worker example"]["level"] == "ok"


def test_mistyped_commands_are_corrected(mosaic: Command) -> None:
    """A mistyped command gets the nearest one."""
    assert "did you mean 'train'" in mosaic("tarin", code=2)


def test_completion_scripts_are_printed(mosaic: Command) -> None:
    """Each shell gets a script that asks mosaic itself for completions."""
    for shell in ("bash", "zsh", "fish"):
        assert "_MOSAIC_COMPLETE" in mosaic("completion", shell)
    mosaic.environment |= {"_MOSAIC_COMPLETE": "bash_complete", "COMP_CWORD": "2"}
    mosaic.environment["COMP_WORDS"] = "mosaic train pp"
    assert "plain,ppo\n" in mosaic("train", "pp")
