"""Which key does what in which environment, and scripts of keys for play without hands."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from mosaic.errors import MosaicError
from mosaic.workers import did_you_mean

# The number of a choice, or the vector of a continuous control.
Action: TypeAlias = int | list[float]

IDLE = "idle"
# In a script for a world with a policy in it: the policy takes this step.
POLICY = "policy"
MAX_REPEAT = 100_000
_LINE = re.compile(r"(?P<keys>[^\s#]+)(?:\s+x?(?P<count>\d+))?\s*(?:#.*)?")

# The first prefix that fits wins; every table may be followed by its idle action.
_BY_ENVIRONMENT: tuple[tuple[str, dict[str, int]], ...] = (
    ("CartPole", {"left": 0, "right": 1}),
    ("MountainCar-", {"left": 0, "right": 2, IDLE: 1}),
    ("Acrobot", {"left": 0, "right": 2, IDLE: 1}),
    ("LunarLander-", {"left": 1, "up": 2, "right": 3, IDLE: 0}),
    ("FrozenLake", {"left": 0, "down": 1, "right": 2, "up": 3}),
    ("CliffWalking", {"up": 0, "right": 1, "down": 2, "left": 3}),
    ("Taxi", {"down": 0, "up": 1, "right": 2, "left": 3, "p": 4, "d": 5}),
    ("Blackjack", {"down": 0, "up": 1}),
    (
        "MiniGrid",
        {"left": 0, "right": 1, "up": 2, "p": 3, "d": 4, "space": 5, "enter": 6},
    ),
    ("BabyAI", {"left": 0, "right": 1, "up": 2, "p": 3, "d": 4, "space": 5, "enter": 6}),
)
# What the actions of an environment are called, in the order of their numbers.
_MINIGRID = ("turn left", "turn right", "forward", "pick up", "drop", "open or switch", "done")
_ACTION_NAMES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("CartPole", ("push left", "push right")),
    ("MountainCar-", ("push left", "coast", "push right")),
    ("Acrobot", ("swing left", "let swing", "swing right")),
    ("LunarLander-", ("engines off", "left engine", "main engine", "right engine")),
    ("FrozenLake", ("move left", "move down", "move right", "move up")),
    ("CliffWalking", ("move up", "move right", "move down", "move left")),
    ("Taxi", ("drive down", "drive up", "drive right", "drive left", "pick up", "drop off")),
    ("Blackjack", ("stick", "hit")),
    ("MiniGrid", _MINIGRID),
    ("BabyAI", _MINIGRID),
)
# Worlds in which nothing moves until the player does.
_TURN_BASED = ("FrozenLake", "CliffWalking", "Taxi", "Blackjack", "MiniGrid", "BabyAI")
_DIGITS = "0123456789"


class KeyScriptError(MosaicError):
    """A script of keys has a line that makes no sense."""


class UnknownKeyError(MosaicError):
    """A key that does nothing in this environment."""


@dataclass(frozen=True)
class KeyMap:
    """What the keys do: names to actions, what happens without a key, and whether time waits."""

    actions: Mapping[str, Action]
    idle: Action
    turn_based: bool
    combinations: Mapping[frozenset[str], Action] = field(default_factory=dict)
    action_names: Sequence[str] = ()

    def action(self, pressed: Iterable[str]) -> Action:
        """The action for the keys held down together.

        Raises:
            UnknownKeyError: One of them does nothing here; the text lists those that do.
        """
        keys = [key for key in pressed if key != IDLE]
        for key in keys:
            if key not in self.names:
                guess = did_you_mean(key, self.names)
                known = ", ".join(self.names)
                raise UnknownKeyError(f"the key {key!r} does nothing here{guess} (keys: {known})")
        together = self.combinations.get(frozenset(keys))
        if together is not None:
            return together
        moves = [self.actions[key] for key in keys if key in self.actions]
        if not moves:
            return self.idle
        if isinstance(self.idle, list):
            vectors = [move for move in moves if isinstance(move, list)]
            return [max(column, key=abs) for column in zip(*vectors, strict=True)]
        return moves[-1]

    @property
    def meanings(self) -> dict[str, str]:
        """What each key does alone, in words."""
        return {key: self._words(action) for key, action in self.actions.items()}

    def _words(self, action: Action) -> str:
        if isinstance(action, list):
            axis = next((n for n, value in enumerate(action) if value), None)
            return "nothing" if axis is None else f"control {axis + 1} at {action[axis]:+g}"
        known = action < len(self.action_names)
        return self.action_names[action] if known else f"action {action}"

    @property
    def names(self) -> list[str]:
        """Every key that does something, alone or together with others."""
        return sorted({*self.actions, *(key for keys in self.combinations for key in keys)})


def key_map(
    env_id: str,
    choices: int | None,
    bounds: tuple[Sequence[float], Sequence[float]] | None = None,
    offered: Mapping[frozenset[str], int] | None = None,
    names: Sequence[str] = (),
) -> KeyMap:
    """The keys of an environment.

    Args:
        env_id: Known families have keys that make sense for them.
        choices: The number of discrete actions, or None.
        bounds: Lowest and highest value of each continuous action, or None.
        offered: Key combinations that the environment itself proposes.
        names: What the environment itself calls its actions; known families have better names.

    Raises:
        MosaicError: The action space is neither discrete nor a short vector.
    """
    turn_based = env_id.startswith(_TURN_BASED)
    if choices is not None:
        actions = {_DIGITS[n]: n for n in range(min(choices, len(_DIGITS)))}
        known = next((keys for prefix, keys in _BY_ENVIRONMENT if env_id.startswith(prefix)), {})
        actions |= {key: action for key, action in known.items() if action < choices}
        combined = dict(offered or {})
        actions |= {next(iter(keys)): a for keys, a in combined.items() if len(keys) == 1}
        called = next(
            (known for prefix, known in _ACTION_NAMES if env_id.startswith(prefix)), names
        )
        return KeyMap(actions, actions.pop(IDLE, 0), turn_based, combined, called)
    if bounds is not None and len(bounds[0]) <= len(_AXES):
        return _vector_keys(*bounds)
    raise MosaicError(
        f"{env_id} cannot be played with keys: its actions are neither a list of choices nor "
        f"a vector of at most {len(_AXES)} numbers"
    )


_AXES = (("left", "right"), ("down", "up"), ("a", "d"), ("s", "w"))


def _vector_keys(lowest: Sequence[float], highest: Sequence[float]) -> KeyMap:
    still = [0.0] * len(lowest)
    # Where time waits for each key, doing nothing needs a key too.
    actions: dict[str, Action] = {"space": still}
    for axis, (low, high) in enumerate(zip(lowest, highest, strict=True)):
        for key, value in zip(_AXES[axis], (low, high), strict=True):
            if value:
                actions[key] = [float(value) if n == axis else 0.0 for n in range(len(lowest))]
    return KeyMap(actions, still, False)


def parse_script(text: str) -> list[tuple[str, ...]]:
    """A script as the keys held down at each step.

    One line is `left`, `left x5` (five steps), `left+up` (together), `idle`, `reset` (begin the
    next episode) or `policy` (it takes the step, where there is one); `#` begins a comment.

    Raises:
        KeyScriptError: With the number of the first line that cannot be read.
    """
    presses: list[tuple[str, ...]] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        count = int(match["count"] or 1) if match else 0
        if match is None or not 1 <= count <= MAX_REPEAT:
            raise KeyScriptError(
                f"line {number}: {line[:60]!r} is not a key; write for example: left x5"
            )
        presses += [tuple(match["keys"].lower().split("+"))] * count
    if not presses:
        raise KeyScriptError("the script has no keys; write one key a line, for example: left x5")
    return presses
