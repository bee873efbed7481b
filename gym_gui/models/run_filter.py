"""The filter language of the run table.

Words match anywhere in a run's name, id, algorithm, environment, tags and notes. `key:word`
matches one field, `key>number` and its kind compare a number, `-` in front turns a term round::

    algo:ppo env:cartpole state:running return>100 tag:baseline -seed:3
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from gym_gui.models.run_status import Record, status_of
from mosaic.config.suggest import did_you_mean

Predicate = Callable[[Record], bool]


class FilterError(ValueError):
    """The filter cannot be understood; the text says which part."""


def _text(run: Record) -> str:
    parts = (run["run_name"], run["run_id"], run["algo"], run["env_id"], run["worker"])
    return " ".join((*map(str, parts), *run["tags"], run["notes"] or "")).lower()


def _metric(name: str) -> Callable[[Record], float | None]:
    return lambda run: run["metrics"].get(name)


_WORDS: Mapping[str, Callable[[Record], str]] = {
    "algo": lambda run: run["algo"],
    "env": lambda run: run["env_id"],
    "id": lambda run: run["run_id"],
    "mode": lambda run: run["mode"] or "",
    "name": lambda run: run["run_name"],
    "notes": lambda run: run["notes"] or "",
    "outcome": lambda run: run["outcome"] or "",
    "parent": lambda run: run["parent_run_id"] or "",
    "state": lambda run: f"{run['state']} {status_of(run).label}",
    "tag": lambda run: " ".join(run["tags"]),
    "worker": lambda run: run["worker"],
}
_NUMBERS: Mapping[str, Callable[[Record], float | None]] = {
    "progress": lambda run: run["progress"]["fraction"] * 100,
    "return": _metric("episodic_return"),
    "length": _metric("episodic_length"),
    "seed": lambda run: run["seed"],
    "sps": lambda run: run["progress"]["sps"],
    "step": lambda run: run["progress"]["step"],
}
FIELDS = tuple(sorted({*_WORDS, *_NUMBERS}))
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    "=": lambda a, b: a == b,
    ":": lambda a, b: a == b,
}
_TERM = re.compile(r"(-?)([A-Za-z_]+)(>=|<=|>|<|=|:)(.*)\Z")


def compile_filter(text: str) -> Predicate | None:
    """A function that says whether a run fits; None when everything does.

    Raises:
        FilterError: With the part that is wrong and the nearest valid field.
    """
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    terms = [_term(word) for word in words]
    if not terms:
        return None
    return lambda run: all(term(run) for term in terms)


def _term(word: str) -> Predicate:
    match = _TERM.match(word)
    if not match:
        return _plain(word)
    minus, key, operator, value = match.groups()
    test = _field(key.lower(), operator, value)
    return (lambda run: not test(run)) if minus else test


def _plain(word: str) -> Predicate:
    if word.startswith("-") and len(word) > 1:
        unwanted = word[1:].lower()
        return lambda run: unwanted not in _text(run)
    wanted = word.lower()
    return lambda run: wanted in _text(run)


def _field(key: str, operator: str, value: str) -> Predicate:
    if key in _NUMBERS:
        return _numeric(key, operator, value)
    if key in _WORDS:
        if operator not in (":", "="):
            raise FilterError(f"{key} holds words, so use {key}:word instead of {key}{operator}")
        get, wanted = _WORDS[key], value.lower()
        if operator == "=":
            return lambda run: get(run).lower() == wanted
        return lambda run: wanted in get(run).lower()
    raise FilterError(f"there is no field {key!r}{did_you_mean(key, FIELDS)}")


def _numeric(key: str, operator: str, value: str) -> Predicate:
    try:
        wanted = float(value)
    except ValueError:
        raise FilterError(f"{key}{operator} needs a number, not {value!r}") from None
    get, compare = _NUMBERS[key], _COMPARE[operator]

    def fits(run: Record) -> bool:
        given: Any = get(run)
        return given is not None and compare(float(given), wanted)

    return fits
