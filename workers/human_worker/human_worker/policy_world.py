"""A world with a trained policy in it, which acts whenever the person does not.

The policy and its environment are in a process of the worker that trained it: only that worker can
read the policy, and it prepares the observations as in training. The two talk in JSON lines
(`docs/guides/interactive.md`).
"""

import base64
import json
import subprocess
import sys
from typing import Required, TypedDict

import numpy as np

from human_worker.environment import PlayError
from human_worker.keys import Action, KeyMap, key_map
from human_worker.world import Moved
from mosaic.workers.algorithms import worker_for

# A session that has been told to stop closes its environment; one that hangs is not waited for.
_CLOSING_S = 5.0


class SessionEndedError(PlayError):
    """The process with the policy is gone."""


class _Picture(TypedDict):
    base64: str


class _ActionSpace(TypedDict, total=False):
    n: int | None
    low: list[float]
    high: list[float]


class _Answer(TypedDict, total=False):
    """One line of a session; which fields it has depends on its `type`."""

    type: Required[str]
    message: str
    env_id: str
    fps: float | None
    actions: _ActionSpace | None
    keys: list[tuple[list[str], int]] | None
    observation: object
    action: object
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, object]
    frame: _Picture | None
    frame_problem: str


class PolicyWorld:
    """The environment of a policy, stepped by it or by a person.

    Args:
        env_id: The environment; empty for the one that the policy was trained in.
        policy: A policy file or the folder of a run's checkpoints.
        worker: The type of the worker that trained it.

    Raises:
        PlayError: The policy cannot be opened, or its actions have no keys.
    """

    def __init__(self, env_id: str, policy: str, worker: str) -> None:
        command = [sys.executable, "-P", "-m", worker_for("interactive", worker).module]
        command += ["--interactive", "--policy", policy]
        if env_id:
            command += ["--env-id", env_id]
        # Its standard error stays ours: what libraries say belongs in the run's log.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            about = self._answer()
            self.env_id = str(about["env_id"])
            self.fps = float(about.get("fps") or 15)
            self.keys = _keys(self.env_id, about)
        except BaseException:
            self.close()
            raise
        self.observation: object = None
        self._frame = b""

    def reset(self, seed: int) -> bytes:
        """Begin an episode; returns the first frame."""
        self._see(self._ask({"cmd": "reset", "seed": seed}))
        return self._frame

    def step(self, action: Action) -> Moved:
        """Take the person's step."""
        return self._moved(self._ask({"cmd": "step", "action": action}))

    def follow(self) -> Moved:
        """Let the policy take one step, by its best action."""
        return self._moved(self._ask({"cmd": "step"}))

    def frame(self) -> bytes:
        """What the player sees now, as PNG."""
        return self._frame

    def close(self) -> None:
        """End the session; a process that does not end is killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            # The end of its input is what tells it, also when it has not read everything.
            self._process.stdin.close()
        except OSError:
            pass  # it is gone already
        try:
            self._process.wait(_CLOSING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _moved(self, answer: _Answer) -> Moved:
        self._see(answer)
        return Moved(
            _value(answer["action"]),
            float(answer["reward"]),
            bool(answer["terminated"]),
            bool(answer["truncated"]),
            answer["info"],
        )

    def _see(self, answer: _Answer) -> None:
        self.observation = _value(answer["observation"])
        picture = answer.get("frame")
        if not picture:
            why = answer.get("frame_problem") or "it draws nothing"
            raise PlayError(f"{self.env_id} cannot be shown: {why}")
        self._frame = base64.b64decode(picture["base64"])

    def _ask(self, command: dict[str, object]) -> _Answer:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command, default=_plain).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise SessionEndedError("the process with the policy has ended") from None
        return self._answer()

    def _answer(self) -> _Answer:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SessionEndedError("the policy could not be opened, or its process has ended")
        answer: _Answer = json.loads(line)
        if answer["type"] == "error":
            raise PlayError(str(answer["message"]))
        return answer


def _keys(env_id: str, about: _Answer) -> KeyMap:
    space: _ActionSpace = about.get("actions") or {}
    bounds = (space["low"], space["high"]) if "low" in space else None
    proposed = {frozenset(keys): int(action) for keys, action in about.get("keys") or ()}
    return key_map(env_id, space.get("n"), bounds, proposed)


def _value(given: object) -> object:
    """A value of the session; arrays that are not short vectors come as bytes."""
    if isinstance(given, dict) and given.keys() == {"shape", "dtype", "base64"}:
        content = np.frombuffer(base64.b64decode(given["base64"]), given["dtype"])
        return content.reshape(given["shape"])
    if isinstance(given, dict):
        return {name: _value(item) for name, item in given.items()}
    return given


def _plain(value: object) -> object:
    return value.tolist() if hasattr(value, "tolist") else str(value)
