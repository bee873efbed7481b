"""What a run says about itself is shown on a terminal, never obeyed by it."""

import os
import pty
import subprocess
from collections.abc import Iterator

import pytest
from cli.conftest import MOSAIC, Command
from support.trainer import Trainer

NAME = "A\x1b]0;pwn\x07\x1b[2J[/red] \u202eevil"
SHOWN = "A\\x1b]0;pwn\\x07\\x1b[2J[/red] \\u202eevil"
# What a terminal obeys and we never write ourselves: titles, clearing, bells, turned lines.
_OBEYED = ("\x1b]", "\x1b[2J", "\x07", "\u202e")


@pytest.fixture
def run_id(trainer: Trainer) -> Iterator[str]:
    """An ended run with a name that a terminal would obey, which wrote such things too."""
    run_id = trainer.submit("short", run_name=NAME)
    trainer.ended(run_id)
    with trainer.directory(run_id).stdout.open("a") as log:
        log.write(f"{NAME}\n")
    return run_id


def _on_terminal(environment: dict[str, str], *words: str) -> str:
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    environment = {**environment, "COLUMNS": "250", "TERM": "xterm"}
    with subprocess.Popen([MOSAIC, *words], env=environment, stdout=theirs, stderr=theirs):
        os.close(theirs)
        written = b""
        # A terminal whose last writer has gone answers with an error, not with an end.
        try:
            while piece := os.read(ours, 65536):
                written += piece
        except OSError:
            pass
    os.close(ours)
    return written.decode()


def test_f22_names_are_shown_not_obeyed(trainer: Trainer, run_id: str) -> None:
    """Escapes in a name are written out by every command, on a terminal and in a pipe."""
    mosaic = Command(trainer.environment(MOSAIC_HOME=str(trainer.home.root)))
    piped = [mosaic("runs"), mosaic("show", run_id)]
    words = (("runs",), ("show", run_id))
    for text in [*piped, *(_on_terminal(mosaic.environment, *each) for each in words)]:
        assert SHOWN in text
        assert not any(sequence in text for sequence in _OBEYED)


def test_f22_a_log_is_shown_not_obeyed(trainer: Trainer, run_id: str) -> None:
    """Neither an escape nor a mark that turns a line gets from a log to the terminal."""
    environment = trainer.environment(MOSAIC_HOME=str(trainer.home.root))
    text = _on_terminal(environment, "logs", run_id)
    assert "\\u202eevil" in text
    assert not any(sequence in text for sequence in _OBEYED)


def test_f22_a_refusal_shows_what_was_typed(trainer: Trainer) -> None:
    """An error message that quotes a name does not pass its escapes on."""
    mosaic = Command(trainer.environment(MOSAIC_HOME=str(trainer.home.root)))
    assert "\x1b" not in mosaic("show", "\x1b[2Jx", code=2)
