"""Interactive sessions: every line gets exactly one answer, whatever the line was."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support import harness
from support.patience import PATIENCE_S


class Session:
    """The worker at the other end of two pipes."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "cleanrl_worker.cli", "--interactive", *arguments]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.greeting = self.read()

    def read(self) -> dict[str, Any]:
        """The next answer."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def raw(self, line: bytes) -> dict[str, Any]:
        """Send a line as it is."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()
        return self.read()

    def ask(self, cmd: str, **fields: Any) -> dict[str, Any]:
        """Send a command."""
        return self.raw(json.dumps({"cmd": cmd, **fields}).encode())

    def close(self) -> int:
        """Hang up; the exit status."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        rest = self.process.stdout.read()
        self.process.stdout.close()
        assert rest == b""
        return self.process.wait(timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """One session for all tests: each begins with `init` or `reset`."""
    opened = Session("--env-id", "CartPole-v1")
    yield opened
    assert opened.close() == 0


def test_an_episode_is_played_by_hand(session: Session) -> None:
    """reset, steps with actions, episode_done; the frame is a picture."""
    assert session.greeting["type"] == "init"
    assert session.greeting["env_id"] == "CartPole-v1"
    ready = session.ask("reset", seed=7)
    assert ready["type"] == "ready"
    assert len(ready["observation"]) == 4
    answers = [session.ask("step", action=1)]
    while answers[-1]["type"] == "step":
        answers.append(session.ask("step", action=1))
    done = answers[-1]
    assert done["type"] == "episode_done"
    assert done["terminated"] or done["truncated"]
    assert done["episode_return"] == len(answers) == done["step"]
    picture = Image.open(io.BytesIO(base64.b64decode(done["frame"]["base64"])))
    assert (picture.format, picture.size) == ("PNG", (600, 400))
    assert "reset first" in session.ask("step", action=1)["message"]
    assert session.ask("reset", seed=7)["observation"] == ready["observation"]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"garbage", "not a line of JSON"),
        (b"[1, 2]", 'an object with a text "cmd"'),
        (b'{"cmd": "rest"}', "did you mean 'reset'"),
        (b'{"cmd": "step", "action": 99}', "from 0 to 1"),
        (b'{"cmd": "step", "action": "left"}', "from 0 to 1"),
        (b'{"cmd": "step"}', "no policy"),
        (b'{"cmd": "choose", "observation": [1, 2, 3, 4]}', "no policy"),
        (b'{"cmd": "reset", "seed": -1}', "whole number"),
        (b'{"cmd": "reset", "env_id": "CartPol-v1"}', "CartPole"),
        (b'{"cmd": "reset", "env_id": 5}', "env_id must be text, not 5"),
        (b'{"cmd": "init", "frames": "bmp"}', "png, jpeg, none"),
        (b'{"cmd": "init", "policy_path": "/nowhere"}', "no policy file"),
        (b'{"x":' + b"[" * 100_000, "not a line of JSON"),
        (b'{"cmd": "' + b"x" * 2_000_000 + b'"}', "longer than"),
        (b"\xff\xfe\x00", "not a line of JSON"),
    ],
)
def test_a_bad_line_gets_an_error_and_the_session_goes_on(
    session: Session, line: bytes, sentence: str
) -> None:
    """Nothing that can be typed ends a session."""
    session.ask("init", env_id="CartPole-v1")
    session.ask("reset", seed=1)
    answer = session.raw(line)
    assert answer["type"] == "error"
    assert sentence in answer["message"]
    assert session.ask("ping") == {"type": "pong"}


def test_continuous_actions_and_jpeg(session: Session) -> None:
    """A list of numbers is an action; one outside the space is refused."""
    session.ask("init", env_id="Pendulum-v1", frames="jpeg")
    ready = session.ask("reset", seed=1)
    assert ready["frame"]["format"] == "jpeg"
    step = session.ask("step", action=[0.5])
    assert step["type"] == "step"
    assert isinstance(step["reward"], float)
    assert "outside" in session.ask("step", action=[9.0])["message"]
    assert "shape" in session.ask("step", action=[0.1, 0.2])["message"]


def test_grids_are_sent_as_bytes_not_as_nested_lists(session: Session) -> None:
    """An image observation keeps its shape and its bytes; text stays text."""
    session.ask("init", env_id="MiniGrid-Empty-5x5-v0", frames="none")
    ready = session.ask("reset", seed=1)
    grid = ready["observation"]["image"]
    assert grid["shape"] == [7, 7, 3]
    assert len(base64.b64decode(grid["base64"])) == 7 * 7 * 3
    assert isinstance(ready["observation"]["mission"], str)
    assert ready["frame"] is None


def test_a_policy_acts_when_no_action_is_given(session: Session, tmp_path: Path) -> None:
    """The answer says which action it took; the caller may still take over."""
    run_dir = tmp_path / "run"
    harness.run(run_dir, "--algo", "ppo", "--env-id", "CartPole-v1", "--total-timesteps", "512")
    assert session.ask("init", policy_path=str(run_dir))["has_policy"]
    session.ask("reset", seed=1)
    assert session.ask("step")["action"] in (0, 1)
    assert session.ask("step", action=1)["action"] == 1
    # Asked about a moment of somewhere else: the best action, or the best of those allowed.
    seen, other = [0.0, 1.0, 0.1, 1.0], [[0.0, 1.0], [0.1, 1.0]]
    best = session.ask("choose", observation=seen, first=True)["action"]
    for allowed in ([0], [1], [0, 1]):
        answer = session.ask("choose", observation=other, allowed=allowed)
        assert answer == {"type": "choice", "action": best if best in allowed else 1 - best}
    assert "shape (4,), not (1,)" in session.ask("choose", observation=[1.0])["message"]
    assert "from 0 to 1" in session.ask("choose", observation=seen, allowed=[2])["message"]
    assert session.ask("step")["step"] == 3


def test_stop_ends_the_session() -> None:
    """`stop` is answered, and the process ends by itself."""
    session = Session("--env-id", "CartPole-v1")
    assert session.ask("stop") == {"type": "stopped"}
    assert session.close() == 0
