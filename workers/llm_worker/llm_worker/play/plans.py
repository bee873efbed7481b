"""Plans of several steps in one answer: followed without asking, until there is a surprise."""

from __future__ import annotations

from collections.abc import Sequence

from llm_worker.play.actions import Action

# Descriptions that name the last actions differ in this line after every step.
_LAST_ACTIONS = "Last:"


class Plan:
    """The actions that are still to be taken.

    A step that changes nothing in what is read, or that pays something else than the step before
    it, is a surprise: the rest of the plan was made for another world and is dropped.
    """

    def __init__(self) -> None:
        self._left: list[Action] = []
        self._before = ""
        self._reward: float | None = None
        self._paid_otherwise = False

    def begin(self) -> None:
        """Begin an episode without a plan."""
        self._left, self._before, self._reward, self._paid_otherwise = [], "", None, False

    def next(self, text: str) -> Action | None:
        """The next planned action in the moment that `text` describes; None when one must ask."""
        if self._paid_otherwise or _world(text) == self._before:
            self._left = []
        return self._left.pop(0) if self._left else None

    def took(self, text: str, reward: float, later: Sequence[Action] | None) -> None:
        """A step was taken in the moment of `text`.

        Args:
            text: What was read before it.
            reward: What it paid.
            later: The actions that the model wants to take after it; None for a planned step.
        """
        # Not any reward: some environments pay the same for every step.
        self._paid_otherwise = self._reward is not None and reward != self._reward
        self._before, self._reward = _world(text), reward
        if later is not None:
            self._left = list(later)


def _world(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith(_LAST_ACTIONS))
