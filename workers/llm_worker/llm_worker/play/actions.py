"""Actions in words: names for choices, numbers within bounds for continuous actions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

Json = dict[str, JsonValue]
# A move is a sentence at most.
LONGEST_TEXT = 400
# What an environment takes: a choice, a vector, or words.
Action = int | list[float] | list[int] | str


@dataclass(frozen=True)
class Choices:
    """Discrete actions by name.

    Attributes:
        allowed: The numbers of those that are legal now; empty when all are.
    """

    names: Sequence[str]
    start: int = 0
    default_name: str = ""
    allowed: Sequence[int] = ()

    @property
    def legal(self) -> list[tuple[int, str]]:
        """Number and name of each action that may be taken."""
        numbered = list(enumerate(self.names, self.start))
        return [one for one in numbered if one[0] in self.allowed] if self.allowed else numbered

    @property
    def legal_names(self) -> list[str]:
        """The names of the actions that may be taken."""
        return [name for _, name in self.legal]

    @property
    def default(self) -> Action:
        """The action that is taken when no answer is valid."""
        named = self.read(self.default_name)
        return self.legal[0][0] if named is None else named

    def listed(self) -> str:
        """One line with every name."""
        return ", ".join(self.legal_names)

    def schema(self) -> Json:
        """One of the names."""
        return {"type": "string", "enum": list(self.legal_names)}

    def read(self, value: JsonValue) -> int | None:
        """A name, forgiving case and underscores; or its number."""
        if isinstance(value, bool) or value is None:
            return None
        if isinstance(value, int):
            return value if any(value == number for number, _ in self.legal) else None
        wanted = _normal(str(value))
        for number, name in self.legal:
            if _normal(name) == wanted:
                return number
        return None

    def mentioned(self, text: str) -> int | None:
        """The one action that a free text names; None when it names none or several."""
        normal = f" {_normal(text)} "
        found = [number for number, name in self.legal if f" {_normal(name)} " in normal]
        return found[0] if len(found) == 1 else None

    def first_named(self, text: str) -> int | None:
        """The action with whose name a text begins; the longest one that fits."""
        normal = f"{_normal(text)} "
        fitting = [
            (len(name), number)
            for number, name in self.legal
            if normal.startswith(f"{_normal(name)} ")
        ]
        return max(fitting)[1] if fitting else None

    def say(self, action: Action) -> str:
        """The action's name."""
        return self.names[int(action) - self.start] if isinstance(action, int) else str(action)


@dataclass(frozen=True)
class Numbers:
    """A vector of numbers, each within its bounds."""

    low: Sequence[float]
    high: Sequence[float]
    whole: bool = False

    @property
    def default(self) -> Action:
        """Zero, or the nearest to it that is allowed."""
        values = [min(max(0.0, a), b) for a, b in zip(self.low, self.high, strict=True)]
        return [int(v) for v in values] if self.whole else values

    def listed(self) -> str:
        """The bounds of each number."""
        kind = "whole numbers" if self.whole else "numbers"
        bounds = ", ".join(f"{a:g} to {b:g}" for a, b in zip(self.low, self.high, strict=True))
        return f"a list of {len(self.low)} {kind}, in order: {bounds}"

    def schema(self) -> Json:
        """A list with the widest bounds; each number is checked when it is read."""
        item: Json = {
            "type": "integer" if self.whole else "number",
            "minimum": min(self.low),
            "maximum": max(self.high),
        }
        return {
            "type": "array",
            "items": item,
            "minItems": len(self.low),
            "maxItems": len(self.low),
        }

    def read(self, value: JsonValue) -> Action | None:
        """The numbers, if there are as many as needed and all are within bounds."""
        values = value if isinstance(value, list) else [value]
        numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
        if len(numbers) != len(self.low) or len(numbers) != len(values):
            return None
        inside = all(a <= v <= b for a, v, b in zip(self.low, numbers, self.high, strict=True))
        if not inside:
            return None
        return [int(v) for v in numbers] if self.whole else [float(v) for v in numbers]

    def say(self, action: Action) -> str:
        """The numbers as a list."""
        return str(action)


@dataclass(frozen=True)
class Words:
    """Moves as text: any, or those that the game offers at this moment.

    Attributes:
        default_text: What is said when no answer is valid; empty: the first offered one.
    """

    offered: Sequence[str] = ()
    default_text: str = ""

    @property
    def default(self) -> Action:
        """What is said when no answer is valid."""
        return self.default_text or (self.offered[0] if self.offered else "pass")

    def listed(self) -> str:
        """The moves that are offered."""
        return ", ".join(self.offered) or "what the game asks for, as text"

    def schema(self) -> Json:
        """One of the offered moves, or a text."""
        if self.offered:
            return {"type": "string", "enum": list(self.offered)}
        return {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT}

    def read(self, value: JsonValue) -> str | None:
        """A text; where moves are offered, one of them, forgiving case and brackets."""
        if not isinstance(value, str) or not value.strip():
            return None
        if not self.offered:
            return value.strip()[:LONGEST_TEXT]
        wanted = _normal(value)
        return next((text for text in self.offered if _normal(text) == wanted), None)

    def say(self, action: Action) -> str:
        """The text itself."""
        return str(action)


# What an agent may do in one environment.
Actions = Choices | Numbers | Words


def _normal(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()
