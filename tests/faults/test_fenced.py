"""F4 and F10 of the reliability review: nothing foreign is computed in the daemon."""

import os
import re
import signal
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.patience import PATIENCE_S
from support.trainer import Trainer, until

from mosaic.client import calls
from mosaic.config.json_types import JsonValue
from mosaic.errors import FenceError, InvalidArgumentError, InvalidConfigError, MosaicError
from mosaic.runs import logs
from mosaic.runs.log_filter import LineFilter
from mosaic.system import fenced
from mosaic.system.processes import process_state

_HERE = "fenced_examples"
_EXAMPLES = """
import os
import subprocess
import sys
import time

def double(value):
    return [value, value]

def spin(value):
    while True:
        pass

def wait(value):
    time.sleep(3600)

def eat(value):
    return len([bytes(2**20) for _ in range(2**20)])

def fail(value):
    raise ValueError("no")

def leave(value):
    os._exit(7)

def quit(value):
    sys.exit(1)

def say(value):
    print("out of turn", flush=True)
    return sys.stdin.read() + value

def add_up(value, ask):
    return value + sum(int(ask({"number": number})) for number in range(3))

def whoami(value):
    return os.getpid()

def start_another(value):
    return subprocess.Popen(["sleep", "3600"]).pid

def babble(value):
    return "x" * 10_000_000
"""


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / f"{_HERE}.py").write_text(_EXAMPLES)
    old = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{old}")
    return _HERE


def test_f04_the_helper_answers_with_plain_data(examples: str) -> None:
    """What is done behind the fence comes back as JSON."""
    asked: JsonValue = {"a": [1, None, "ä"]}
    assert fenced.call(f"{examples}:double", asked) == [asked, asked]


@pytest.mark.parametrize(
    ("name", "limits", "says", "final"),
    [
        ("spin", fenced.Limits(cpu_s=1), "1 s of computing", True),
        ("wait", fenced.Limits(wall_s=0.5), "longer than 0.5 s", False),
        ("eat", fenced.Limits(memory_mb=300), "300 MB", True),
        ("fail", fenced.Limits(), "ValueError: no", True),
        ("babble", fenced.Limits(), "4 MB", True),
        ("leave", fenced.Limits(), "exit code 7", True),
        ("quit", fenced.Limits(), "SystemExit", True),
    ],
)
def test_f04_the_helper_is_stopped(
    examples: str, name: str, limits: fenced.Limits, says: str, final: bool
) -> None:
    """Time, memory and length are limited, and the refusal says which limit it was."""
    with pytest.raises(FenceError, match=says) as refused:
        fenced.call(f"{examples}:{name}", None, limits)
    assert refused.value.final is final


def test_f04_printing_and_reading_do_not_disturb_the_conversation(examples: str) -> None:
    """A function may print; what it finds on its standard input is nothing."""
    assert fenced.call(f"{examples}:say", "words") == "words"


def test_f04_a_helper_asks_its_caller(examples: str) -> None:
    """Large work is fed piece by piece, and what the caller refuses ends the helper."""

    def reply(question: JsonValue) -> bytes:
        assert isinstance(question, dict)
        return str(question["number"]).encode()

    def refuse(question: JsonValue) -> bytes:
        raise InvalidArgumentError("enough")

    assert fenced.call(f"{examples}:add_up", 10, reply=reply) == 13
    with pytest.raises(InvalidArgumentError, match="enough"):
        fenced.call(f"{examples}:add_up", 10, reply=refuse)


def test_f04_a_helper_is_kept_and_replaced_after_a_failure(examples: str) -> None:
    """Calls share a process until one of them breaks it; then the next gets a new one."""
    helper = fenced.Helper(fenced.Limits(wall_s=5))
    try:
        first = helper.call(f"{examples}:whoami", None)
        assert helper.call(f"{examples}:whoami", None) == first
        with pytest.raises(FenceError):
            helper.call(f"{examples}:leave", None)
        second = helper.call(f"{examples}:whoami", None)
        child = helper.call(f"{examples}:start_another", None)
    finally:
        helper.close()
    assert second != first
    with pytest.raises(FenceError, match="shut down"):
        helper.call(f"{examples}:whoami", None)
    for gone in (first, second, child):
        assert isinstance(gone, int)
        # Killed with its group; only its parent's table may know it for a moment longer.
        until(lambda gone=gone: process_state(gone) in ("", "Z", "X"), f"{gone} has ended")


def _bomb(path: Path) -> Path:
    """Some hundred bytes whose key needs 2^44 steps to be hashed."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("policy/data.pkl", b"}N" + b"2\x86" * 44 + b"Ns.")
    return path


@pytest.fixture
def hostile(tmp_path: Path) -> dict[str, JsonValue]:
    """A configuration whose check lasts as long as it may."""
    policy = _bomb(tmp_path / "hostile.cleanrl_model")
    worker: dict[str, JsonValue] = {
        "type": "cleanrl",
        "config": {"extras": {"mode": "policy_eval", "policy_path": str(policy)}},
    }
    return {"artifacts": {}, "metadata": {"worker": worker}}


def test_f04_a_submission_is_waited_for_as_long_as_its_check_may_take(
    make_trainer: Callable[..., Trainer],
    hostile: dict[str, JsonValue],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the limit is set to, the answer is the daemon's: here refused, with the reason."""
    trainer = make_trainer(check_timeout_s=str(PATIENCE_S)).start()
    monkeypatch.setattr(calls, "_LOOK_S", 0.1)
    with pytest.raises(InvalidConfigError, match="computing"):
        trainer.client.submit(hostile)


def test_f04_a_submission_to_a_daemon_that_hangs_is_given_up(
    make_trainer: Callable[..., Trainer],
    hostile: dict[str, JsonValue],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The caller gets an error instead of waiting forever."""
    trainer = make_trainer(check_timeout_s=str(PATIENCE_S)).start()
    client = trainer.client
    monkeypatch.setattr(calls, "_LOOK_S", 0.1)
    monkeypatch.setattr(calls, "_CALL_S", 1.0)
    os.kill(trainer.pid, signal.SIGSTOP)
    try:
        with pytest.raises(MosaicError, match="did not answer in time"):
            client.submit(hostile)
    finally:
        os.kill(trainer.pid, signal.SIGCONT)


def test_f04_a_checkpoint_cannot_hold_the_daemon(
    make_trainer: Callable[..., Trainer], hostile: dict[str, JsonValue]
) -> None:
    """While a hostile checkpoint is looked at the daemon answers, and then the run is refused."""
    # However busy the machine is, what it computes is what counts.
    trainer = make_trainer(check_timeout_s=str(PATIENCE_S)).start()
    refused: list[InvalidConfigError] = []

    def submit() -> None:
        with pytest.raises(InvalidConfigError) as problem:
            trainer.client.submit(hostile)
        refused.append(problem.value)

    asking = threading.Thread(target=submit)
    asking.start()
    answers = 0
    while asking.is_alive():
        assert trainer.client.health().pid == trainer.pid
        answers += 1
    asking.join()
    assert "computing" in str(refused[0])
    assert answers > 1


def test_f10_a_pattern_cannot_hold_the_daemon(trainer: Trainer) -> None:
    """A pattern that backtracks for years elsewhere is searched in time that no one notices."""
    run_id = trainer.ended(trainer.submit("short")).run_id
    lines = "".join("a" * length + "!\n" for length in range(24, 2000))
    trainer.directory(run_id).stderr.write_text(lines + "aaaa\n")
    (chunk,) = trainer.client.logs(run_id, grep="^(a+)+$", stream="stderr")
    assert chunk.text == "aaaa\n"


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?<!x)y", "(?=a)", "("])
def test_f10_what_needs_backtracking_is_refused_in_words(pattern: str) -> None:
    """Lookaround and back references are named as what cannot be searched for."""
    with pytest.raises(InvalidArgumentError, match="no lookaround, no back references"):
        LineFilter(pattern)


_SHAPES: list[Any] = [
    "b",
    "^b",
    "b$",
    r"\Ab",
    r"b\z",
    "[^a]b",
    r"\sb",
    "(?i)B|C",
    "x*",
    "^$",
    "a[^c]*c",
    "(?s)a.*c",
    "(^|[^_])b",
]


@pytest.mark.parametrize("pattern", _SHAPES)
def test_f10_searching_a_block_finds_what_searching_each_line_finds(
    tmp_path: Path, pattern: str
) -> None:
    """No line is lost or added because many are searched at once."""
    content = ["b", "ab", "ba", "a b", "", "a", "c", "_b", "xx_b b", "abc", "a", "", "c b", "b"]
    path = tmp_path / "stdout.log"
    path.write_text("\n".join(content) + "\n")
    found = logs.read_lines(path, 0, final=True, wanted=LineFilter(pattern))
    wanted = [line for line in content if re.search(pattern.replace(r"\z", r"\Z"), line)]
    assert list(found.lines) == wanted
    where = content.index(wanted[0])
    assert found.first == sum(len(line) + 1 for line in content[:where])
