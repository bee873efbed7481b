"""Whether a value fits an argument that an algorithm declares. Pure.

Every door asks here: the flags of `mosaic train`, the daemon for documents, workers for their own
configurations. So a range that a worker declares holds wherever a value comes from.
"""

import math
from collections.abc import Mapping
from pathlib import Path

from mosaic.config.json_types import JsonValue
from mosaic.config.values import kinds_of, noun
from mosaic.workers.facts import ArgumentFacts, RangeFacts

_KINDS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "bool": (bool,),
}


def misfit(argument: ArgumentFacts, value: JsonValue, name: str = "") -> str:
    """Why a value does not fit an argument; empty when it does.

    Args:
        argument: What is declared.
        value: What was given.
        name: How the argument is called where it was given, such as `--num-envs`.
    """
    name, kinds = name or argument["name"], kinds_of(argument["type"])
    if value is None:
        return "" if "None" in kinds else f"{name} must be given as {kinds[0]}, not null"
    # In Python True is also 1, but who writes `true` for a number has made a mistake.
    expected, is_switch = _KINDS.get(kinds[0]), isinstance(value, bool)
    if expected and (is_switch != (kinds[0] == "bool") or not isinstance(value, expected)):
        return f"{name} must be {kinds[0]}, not {value!r}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{name} must be a finite number, not {value!r}"
    limits = argument["range"]
    if limits is not None and not _within(limits, value):
        return f"{name} must be {allowed(limits)}, not {value!r}"
    return ""


def absolute_paths(
    declared: Mapping[str, ArgumentFacts], values: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """The values, with files of the user's named from the root.

    A run works in its own directory, where a relative path would mean something else. A name that
    is no file here, such as that of a shipped plan, stays as it is.
    """
    made = dict(values)
    for name, value in values.items():
        is_path = name in declared and declared[name].get("path", False)
        if is_path and isinstance(value, str) and value:
            path = Path(value).expanduser()
            made[name] = str(path.absolute()) if path.exists() or path.suffix else value
    return made


def allowed(limits: RangeFacts) -> str:
    """A range in words: `at least 1`, `one of adam, sgd`."""
    if limits["choices"]:
        return "one of " + ", ".join(map(str, limits["choices"]))
    bounds = []
    if limits["low"] is not None:
        bounds.append(f"{'above' if limits['low_open'] else 'at least'} {limits['low']:g}")
    if limits["high"] is not None:
        bounds.append(f"{'below' if limits['high_open'] else 'at most'} {limits['high']:g}")
    return " and ".join(bounds)


def summary(argument: ArgumentFacts) -> str:
    """Type, range and default of an argument, for help texts."""
    limits = argument["range"]
    bounds = allowed(limits) if limits is not None else ""
    return ", ".join(
        part
        for part in (
            bounds if limits is not None and limits["choices"] else _noun(argument["type"]),
            "" if limits is not None and limits["choices"] else bounds,
            f"default {argument['default']}" if argument["default"] not in (None, "") else "",
        )
        if part
    )


def _noun(kind: str) -> str:
    return "text" if kinds_of(kind)[0] == "str" else noun(kind)


def _within(limits: RangeFacts, value: JsonValue) -> bool:
    if limits["choices"]:
        return str(value) in map(str, limits["choices"])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return True
    low, high = limits["low"], limits["high"]
    above = low is None or (value > low if limits["low_open"] else value >= low)
    below = high is None or (value < high if limits["high_open"] else value <= high)
    return above and below
