"""A world with a trained policy in it, which acts whenever the person does not."""

import base64

import numpy as np

from human_worker.environment import PlayError
from human_worker.keys import Action, KeyMap, key_map
from human_worker.world import Moved
from mosaic.workers.sessions import ActionSpace, Answer, PolicySession


class PolicyWorld:
    """The environment of a policy, stepped by it or by a person.

    Args:
        env_id: The environment; empty for the one that the policy was trained in.
        policy: A policy file or the folder of a run's checkpoints.
        worker: The type of the worker that trained it.

    Raises:
        MosaicError: The policy cannot be opened, or its actions have no keys.
    """

    def __init__(self, env_id: str, policy: str, worker: str) -> None:
        self._session = PolicySession(worker, policy, env_id)
        about = self._session.about
        try:
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
        self._see(self._session.ask({"cmd": "reset", "seed": seed}))
        return self._frame

    def step(self, action: Action) -> Moved:
        """Take the person's step."""
        return self._moved(self._session.ask({"cmd": "step", "action": action}))

    def follow(self) -> Moved:
        """Let the policy take one step, by its best action."""
        return self._moved(self._session.ask({"cmd": "step"}))

    def frame(self) -> bytes:
        """What the player sees now, as PNG."""
        return self._frame

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def _moved(self, answer: Answer) -> Moved:
        self._see(answer)
        return Moved(
            _value(answer["action"]),
            float(answer["reward"]),
            bool(answer["terminated"]),
            bool(answer["truncated"]),
            answer["info"],
        )

    def _see(self, answer: Answer) -> None:
        self.observation = _value(answer["observation"])
        picture = answer.get("frame")
        if not picture:
            why = answer.get("frame_problem") or "it draws nothing"
            raise PlayError(f"{self.env_id} cannot be shown: {why}")
        self._frame = base64.b64decode(picture["base64"])


def _keys(env_id: str, about: Answer) -> KeyMap:
    space: ActionSpace = about.get("actions") or {}
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
