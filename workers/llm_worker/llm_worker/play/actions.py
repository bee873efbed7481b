"""Actions in words: names for choices, numbers within bounds for continuous actions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

Json = dict[str, JsonValue]
# What an environment takes: a choice, or a vector.
Action = int | list[float] | list[int]


@dataclass(frozen=True)
class Choices:
    """Discrete actions by name."""

    names: Sequence[str]
    start: int = 0
    default_name: str = ""

    @property
    def default(self) -> Action:
        """The action that is taken when no answer is valid."""
        named = self.read(self.default_name)
        return self.start if named is None else named

    def listed(self) -> str:
        """One line with every name."""
        return ", ".join(self.names)

    def schema(self) -> Json:
        """One of the names."""
        return {"type": "string", "enum": list(self.names)}

    def read(self, value: JsonValue) -> int | None:
        """A name, forgiving case and underscores; or its number."""
        if isinstance(value, bool) or value is None:
            return None
        if isinstance(value, int):
            inside = self.start <= value < self.start + len(self.names)
            return value if inside else None
        wanted = _normal(str(value))
        for number, name in enumerate(self.names, self.start):
            if _normal(name) == wanted:
                return number
        return None

    def mentioned(self, text: str) -> int | None:
        """The one action that a free text names; None when it names none or several."""
        normal = f" {_normal(text)} "
        found = [
            number
            for number, name in enumerate(self.names, self.start)
            if f" {_normal(name)} " in normal
        ]
        return found[0] if len(found) == 1 else None

    def first_named(self, text: str) -> int | None:
        """The action with whose name a text begins; the longest one that fits."""
        normal = f"{_normal(text)} "
        fitting = [
            (len(name), number)
            for number, name in enumerate(self.names, self.start)
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


# What an agent may do in one environment.
Actions = Choices | Numbers


def _normal(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()
