"""Starting, stopping and asking after the daemon from the command line."""

from collections.abc import Callable

from cli.conftest import Command


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
