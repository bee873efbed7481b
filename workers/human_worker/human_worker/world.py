"""Where a game is played: an environment in this process, or one with a policy in another."""

from typing import NamedTuple, Protocol

from human_worker.keys import Action, KeyMap


class Moved(NamedTuple):
    """One step: the action that was taken, and what came of it."""

    action: object
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, object]


class World(Protocol):
    """An environment that is stepped and seen.

    Attributes:
        keys: What each key does.
        fps: How often a world that does not wait steps in a second.
        observation: What the next action is chosen by.
    """

    keys: KeyMap
    fps: float
    observation: object

    def reset(self, seed: int) -> bytes:
        """Begin an episode; returns the first frame."""
        ...

    def step(self, action: Action) -> Moved:
        """Act."""
        ...

    def frame(self) -> bytes:
        """What the player sees now, as PNG."""
        ...

    def close(self) -> None:
        """Close the environment."""
        ...
