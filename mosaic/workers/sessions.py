"""A session with a trained policy, held in a process of the worker that trained it.

Only that worker can read its policies, and it prepares observations as in training. The two talk in
JSON lines (`docs/guides/interactive.md`): a policy can play in its own environment, or be asked
what it would do with an observation from somewhere else.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Required, TypedDict

from mosaic.errors import SessionEndedError, SessionError
from mosaic.workers.algorithms import worker_for

# A session that has been told to stop closes its environment; one that hangs is not waited for.
_CLOSING_S = 5.0


class Picture(TypedDict):
    """A frame, as PNG in base64."""

    base64: str


class ActionSpace(TypedDict, total=False):
    """How many choices there are, or the bounds of a vector."""

    n: int | None
    low: list[float]
    high: list[float]


class ObservationSpace(TypedDict):
    """What the policy reads."""

    shape: list[int]


class Answer(TypedDict, total=False):
    """One line of a session; which fields it has depends on its `type`."""

    type: Required[str]
    message: str
    env_id: str
    fps: float | None
    actions: ActionSpace | None
    reads: ObservationSpace | None
    keys: list[tuple[list[str], int]] | None
    observation: object
    action: object
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, object]
    frame: Picture | None
    frame_problem: str


class PolicySession:
    """A process that holds a policy and its environment.

    Args:
        worker: The type of the worker that trained the policy.
        policy: A policy file or the folder of a run's checkpoints.
        env_id: The environment; empty for the one that the policy was trained in.

    Attributes:
        about: What the session says about its environment and its policy.

    Raises:
        SessionError: The policy cannot be opened.
        InvalidConfigError: The worker has no such sessions.
    """

    def __init__(self, worker: str, policy: str, env_id: str = "") -> None:
        command = [sys.executable, "-P", "-m", worker_for("interactive", worker).module]
        command += ["--interactive", "--policy", policy]
        if env_id:
            command += ["--env-id", env_id]
        # Its standard error stays ours: what libraries say belongs in the run's log.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            self.about = self._answer()
        except BaseException:
            self.close()
            raise

    def ask(self, command: Mapping[str, object]) -> Answer:
        """Send one command and wait for its answer.

        Raises:
            SessionError: The session refuses.
            SessionEndedError: The process with the policy is gone.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command, default=_plain).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise SessionEndedError("the process with the policy has ended") from None
        return self._answer()

    def choose(self, observation: object, allowed: Sequence[int], *, first: bool) -> int:
        """The policy's best action among those that are allowed.

        Args:
            observation: What the policy reads, in the shape that it was trained with.
            allowed: The actions that are possible now.
            first: Whether an episode begins: a policy with memory forgets the one before.
        """
        asked = {"observation": observation, "allowed": list(allowed), "first": first}
        action = self.ask({"cmd": "choose", **asked})["action"]
        if not isinstance(action, int):
            raise SessionError(f"the policy answered with {action!r}, which is no choice")
        return action

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

    def _answer(self) -> Answer:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SessionEndedError("the policy could not be opened, or its process has ended")
        answer: Answer = json.loads(line)
        if answer["type"] == "error":
            raise SessionError(str(answer["message"]))
        return answer


def _plain(value: object) -> object:
    return value.tolist() if hasattr(value, "tolist") else str(value)
