"""Fields of a generated form: what may be typed, what it means, what is wrong with it."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from mosaic.config.json_types import JsonValue
from mosaic.config.suggest import did_you_mean
from mosaic.config.values import read_truth
from mosaic.workers.facts import AlgorithmFacts, ArgumentFacts

INT, FLOAT, BOOL, CHOICE, TEXT, OTHER = "int", "float", "bool", "choice", "str", "other"
# If no basic ones are declared: as many as fit without scrolling.
_FIRST_SHOWN = 8


class FieldError(ValueError):
    """What was typed cannot be used; the text says what can."""


@dataclass(frozen=True)
class Field:
    """One argument of a script, as a form field.

    Attributes:
        name: As the script calls it.
        kind: int, float, bool, choice, str or other.
        optional: Whether it may be left without a value.
        default: What the script takes when nothing is given.
        help: The script's own sentence.
    """

    name: str
    kind: str
    default: JsonValue
    help: str = ""
    optional: bool = False
    low: float | None = None
    high: float | None = None
    low_open: bool = False
    high_open: bool = False
    choices: tuple[str, ...] = ()

    @classmethod
    def from_argument(cls, argument: ArgumentFacts) -> Self:
        """From one entry of a worker's `describe()`."""
        bounds = argument.get("range")
        words = [part.strip() for part in str(argument["type"]).split("|")]
        base = next((word for word in words if word != "None"), TEXT)
        choices = tuple(bounds.get("choices") or ()) if bounds else ()
        kind = CHOICE if choices else base if base in (INT, FLOAT, BOOL, TEXT) else OTHER
        return cls(
            name=argument["name"],
            kind=kind,
            default=argument["default"],
            help=argument.get("help", ""),
            optional="None" in words,
            low=bounds.get("low") if bounds else None,
            high=bounds.get("high") if bounds else None,
            low_open=bool(bounds and bounds.get("low_open")),
            high_open=bool(bounds and bounds.get("high_open")),
            choices=choices,
        )

    @property
    def label(self) -> str:
        """The name as people read it."""
        return self.name.replace("_", " ")

    @property
    def allowed(self) -> str:
        """What may be typed, in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.kind == BOOL:
            return "true or false"
        if self.kind not in (INT, FLOAT):
            return "any text"
        noun = "a whole number" if self.kind == INT else "a number"
        return f"{noun}{_bounds(self)}"

    def show(self, value: JsonValue) -> str:
        """A value as it would be typed."""
        if value is None:
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float) and value.is_integer() and abs(value) >= 1e5:
            return f"{value:g}"
        return str(value) if isinstance(value, (str, int, float)) else json.dumps(value)

    def parse(self, text: str) -> JsonValue:
        """The value of what was typed; the default when nothing was.

        Raises:
            FieldError: With what is allowed.
        """
        typed = text.strip()
        if not typed:
            return self.default
        if self.optional and typed.lower() in ("none", "null"):
            return None
        if self.kind == CHOICE:
            return self._choice(typed)
        if self.kind == BOOL:
            return self._switch(typed)
        if self.kind in (INT, FLOAT):
            return self._number(typed)
        if self.kind == OTHER:
            return self._json(typed)
        return typed

    def _choice(self, typed: str) -> str:
        if typed not in self.choices:
            hint = did_you_mean(typed, self.choices)
            raise FieldError(f"must be {self.allowed}, not {typed!r}{hint}")
        return typed

    def _switch(self, typed: str) -> bool:
        truth = read_truth(typed)
        if truth is None:
            raise FieldError(f"must be {self.allowed}, not {typed!r}")
        return truth

    def _json(self, typed: str) -> JsonValue:
        try:
            value: JsonValue = json.loads(typed)
        except ValueError:
            raise FieldError(f"must be a JSON value, not {typed!r}") from None
        return value

    def _number(self, typed: str) -> int | float:
        try:
            value = float(typed.replace("_", "").replace(",", ""))
        except ValueError:
            raise FieldError(f"must be {self.allowed}, not {typed!r}") from None
        if not math.isfinite(value):
            raise FieldError(f"must be {self.allowed}, not {typed!r}")
        if self.kind == INT and not value.is_integer():
            raise FieldError(f"must be {self.allowed}, not {typed!r}")
        below = self.low is not None and (value <= self.low if self.low_open else value < self.low)
        above = self.high is not None and (
            value >= self.high if self.high_open else value > self.high
        )
        if below or above:
            raise FieldError(f"must be {self.allowed}, not {typed}")
        return int(value) if self.kind == INT else value


def _bounds(field: Field) -> str:
    low = None if field.low is None else f"{field.low:g}"
    high = None if field.high is None else f"{field.high:g}"
    parts = []
    if low is not None:
        parts.append(f"{'above' if field.low_open else 'at least'} {low}")
    if high is not None:
        parts.append(f"{'below' if field.high_open else 'at most'} {high}")
    return f" {' and '.join(parts)}" if parts else ""


# Arguments of every script that the form asks for elsewhere, or that the daemon decides.
HANDLED = frozenset(
    {
        "env_id", "total_timesteps", "seed", "cuda", "track", "wandb_project_name",
        "wandb_entity", "capture_video", "run_dir", "tensorboard_dir", "resume", "stop_at",
        "smoke", "exp_name", "keep_checkpoints", "save_model",
        "upload_model", "hf_entity",
    }
)  # fmt: skip


def fields_of(description: AlgorithmFacts, first: Sequence[str]) -> list[tuple[Field, bool]]:
    """The fields to show, in order, each with whether it is a basic one."""
    fields = {
        argument["name"]: Field.from_argument(argument)
        for argument in description.get("arguments", ())
        if argument["name"] not in HANDLED
    }
    basic = [name for name in first if name in fields] or list(fields)[:_FIRST_SHOWN]
    rest = [name for name in fields if name not in basic]
    return [(fields[name], True) for name in basic] + [(fields[name], False) for name in rest]
