"""What a sweep may choose from, read from `--param NAME=VALUES` and checked against the script."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mosaic.config.suggest import by_initials, did_you_mean
from mosaic.config.values import convert
from mosaic.errors import InvalidConfigError, Problem
from mosaic.workers.facts import ArgumentFacts, RangeFacts
from mosaic.workers.parameters import allowed

SYNTAX = "NAME=A,B,C or NAME=LOW..HIGH or NAME=LOW..HIGH:STEP or NAME=log:LOW..HIGH"
_BAD_SYNTAX, _UNKNOWN, _BAD_VALUE = "CLI103", "CFG113", "CFG114"
# Fixed for all trials, or they could not be compared; each has an option of its own.
_FIXED = {
    "env_id": "--env-id",
    "seed": "--seed and --seeds",
    "total_timesteps": "--total-timesteps",
    "stop_at": "--total-timesteps",
}
_MOST_GRID_POINTS = 10_000

Scalar = bool | int | float | str | None
# What one trial is given, by the names of the parameters.
Point = dict[str, Scalar]


@dataclass(frozen=True)
class Choices:
    """One of several values."""

    values: tuple[Scalar, ...]


@dataclass(frozen=True)
class Range:
    """A number between two, both included."""

    low: float
    high: float
    log: bool = False
    step: float | None = None
    integer: bool = False


Dimension = Choices | Range
Space = dict[str, Dimension]


def read_space(texts: Sequence[str], arguments: Sequence[ArgumentFacts] | None, algo: str) -> Space:
    """The dimensions that were asked for.

    Args:
        texts: What followed each `--param`.
        arguments: The script's arguments as its worker describes them; None takes any name.
        algo: For messages.

    Raises:
        InvalidConfigError: With every problem.
    """
    known = None if arguments is None else {item["name"]: item for item in arguments}
    space: Space = {}
    problems: list[Problem] = []
    for text in texts:
        word, equals, values = text.partition("=")
        name = word.strip().removeprefix("--").replace("-", "_")
        try:
            if not equals or not name or not values.strip():
                raise _ParameterError(_BAD_SYNTAX, f"{text!r} is not a parameter; write {SYNTAX}")
            if name in space:
                raise _ParameterError(_BAD_SYNTAX, f"{name} is given twice")
            form = _log_in_front(values.strip())
            if form != values.strip():
                # Said beside what else is wrong with it, so that both are put right at once.
                message = f"a logarithmic range is written log:LOW..HIGH; here: {word}={form}"
                problems.append(Problem(f"--param {word.strip()}", _BAD_SYNTAX, message))
            space[name] = _dimension(name, form, known, algo)
        except _ParameterError as error:
            problems.append(Problem(f"--param {word.strip()}", error.code, error.message))
    if not texts:
        message = f"a sweep needs something to vary: --param {SYNTAX}"
        problems.append(Problem("", _BAD_SYNTAX, message))
    if problems:
        raise InvalidConfigError(problems)
    return space


def _log_in_front(values: str) -> str:
    """A range whose `log` was written where the step belongs, as it should be; any other as is."""
    bounds, colon, step = values.rpartition(":")
    misplaced = colon and ".." in bounds and step.strip() == "log"
    return f"log:{bounds.removeprefix('log:')}" if misplaced else values


class _ParameterError(Exception):
    """A problem with one parameter."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def _dimension(
    name: str, text: str, known: Mapping[str, ArgumentFacts] | None, algo: str
) -> Dimension:
    if name in _FIXED:
        message = f"{name} is the same for all trials of a sweep; set it with {_FIXED[name]}"
        raise _ParameterError(_UNKNOWN, message)
    kind, bounds = "any", None
    if known is not None:
        if name not in known:
            names = [item.replace("_", "-") for item in known.keys() - _FIXED.keys()]
            short = by_initials(name, known.keys() - _FIXED.keys())
            # `lr` is like no name letter by letter, and yet clearly meant.
            typed = short.replace("_", "-") if short else name.replace("_", "-")
            hint = did_you_mean(typed, names)
            raise _ParameterError(_UNKNOWN, f"{algo} has no such argument{hint}")
        kind, bounds = known[name]["type"], known[name].get("range")
    if ".." in text:
        between = _range(name, text, kind)
        for end in (between.low, between.high):
            _check_bounds(name, end, bounds)
        return between
    values = tuple(_value(name, part, kind) for part in text.split(","))
    if len(set(map(repr, values))) < len(values):
        raise _ParameterError(_BAD_VALUE, f"{name} lists a value twice: {text}")
    for value in values:
        _check_bounds(name, value, bounds)
    return Choices(values)


def _range(name: str, text: str, kind: str) -> Range:
    bare = text.removeprefix("log:")
    log = bare != text
    bounds, colon, stride = bare.partition(":")
    low_text, _, high_text = bounds.partition("..")
    base = kind.split("|")[0].strip()
    if base not in ("int", "float", "any"):
        raise _ParameterError(_BAD_VALUE, f"{name} takes {kind}; list its values: {name}=A,B")
    low, high = (_number(name, part, base) for part in (low_text, high_text))
    integer = base == "int" or (base == "any" and isinstance(low, int) and isinstance(high, int))
    if not low < high:
        raise _ParameterError(
            _BAD_VALUE, f"{name}: {low} .. {high} is empty; the smaller end comes first"
        )
    if log and low <= 0:
        raise _ParameterError(
            _BAD_VALUE, f"{name}: a logarithmic range begins above 0, not at {low}"
        )
    step = _number(name, stride, base) if colon else None
    if step is not None and (log or step <= 0):
        raise _ParameterError(_BAD_VALUE, f"{name}: a step is above 0 and not for log ranges")
    return Range(low, high, log, step, integer)


def _number(name: str, text: str, kind: str) -> float:
    value = _value(name, text.strip(), kind)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _ParameterError(_BAD_VALUE, f"{name}: {text!r} is not a number; write {SYNTAX}")
    return value


def _value(name: str, text: str, kind: str) -> Scalar:
    try:
        value = convert(text.strip(), kind)
    except ValueError:
        raise _ParameterError(_BAD_VALUE, f"{name} takes {kind}, not {text.strip()!r}") from None
    if value is not None and not isinstance(value, bool | int | float | str):
        raise _ParameterError(_BAD_VALUE, f"{name} takes single values, not {text.strip()!r}")
    return value


def _check_bounds(name: str, value: Scalar, bounds: RangeFacts | None) -> None:
    if not bounds or isinstance(value, bool) or value is None:
        return
    if bounds["choices"] and value not in bounds["choices"]:
        raise _ParameterError(_BAD_VALUE, f"{name} must be {allowed(bounds)}, not {value!r}")
    if not isinstance(value, int | float):
        return
    low, high = bounds["low"], bounds["high"]
    if low is not None and (value < low or (bounds["low_open"] and value == low)):
        raise _ParameterError(_BAD_VALUE, f"{name} must be {allowed(bounds)}, not {value:g}")
    if high is not None and (value > high or (bounds["high_open"] and value == high)):
        raise _ParameterError(_BAD_VALUE, f"{name} must be {allowed(bounds)}, not {value:g}")


def grid(space: Space) -> list[Point]:
    """Every combination.

    Raises:
        InvalidConfigError: A dimension has no end of values, or there are too many combinations.
    """
    values: list[Sequence[Scalar]] = []
    problems = []
    for name, dimension in space.items():
        points = _points(dimension)
        if points is None:
            message = f"a grid needs values: {name}=A,B,C or {name}=LOW..HIGH:STEP"
            problems.append(Problem("", _BAD_VALUE, message))
        else:
            values.append(points)
    count = math.prod(map(len, values))
    if not problems and count > _MOST_GRID_POINTS:
        message = f"the grid has {count:,} points; at most {_MOST_GRID_POINTS:,} are tried"
        problems.append(Problem("", _BAD_VALUE, message))
    if problems:
        raise InvalidConfigError(problems)
    return [dict(zip(space, point, strict=True)) for point in itertools.product(*values)]


def _points(dimension: Dimension) -> Sequence[Scalar] | None:
    if isinstance(dimension, Choices):
        return dimension.values
    step = dimension.step or (1 if dimension.integer and not dimension.log else None)
    if step is None:
        return None
    count = int((dimension.high - dimension.low) / step + 1e-9) + 1
    return [dimension.low + at * step for at in range(min(count, _MOST_GRID_POINTS + 1))]


def space_to_dict(space: Space) -> dict[str, object]:
    """The space as plain data."""
    return {
        name: {"kind": type(dimension).__name__.lower(), **asdict(dimension)}
        for name, dimension in space.items()
    }


def space_from_dict(document: Mapping[str, dict[str, Any]]) -> Space:
    """The space from plain data."""
    space: Space = {}
    for name, described in document.items():
        facts = dict(described)
        if facts.pop("kind") == "choices":
            space[name] = Choices(tuple(facts["values"]))
        else:
            space[name] = Range(**facts)
    return space
