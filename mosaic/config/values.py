"""Values that people type, read with the type an argument declares."""

import json
import math
import re
from collections.abc import Mapping

from mosaic.config.json_types import JsonValue

TRUE_WORDS = frozenset({"true", "yes", "on", "1"})
FALSE_WORDS = frozenset({"false", "no", "off", "0"})
_NOUNS = {"int": "a whole number", "float": "a number", "bool": "true or false"}


def noun(kind: str) -> str:
    """What a value of a kind is called in a sentence."""
    return _NOUNS.get(kinds_of(kind)[0], kind)


def kinds_of(kind: str) -> list[str]:
    """The parts of a declared type such as `float | None`."""
    return [part.strip() for part in kind.split("|")]


def read_truth(text: str) -> bool | None:
    """What a word says about a switch; None when it says neither."""
    word = text.lower()
    return True if word in TRUE_WORDS else False if word in FALSE_WORDS else None


def convert(text: str, kind: str) -> JsonValue:
    """A typed value of the kind an argument declares, such as `int` or `float | None`.

    Raises:
        ValueError: It is not one.
    """
    kinds = kinds_of(kind)
    if "None" in kinds and text.lower() in ("none", "null"):
        return None
    match kinds[0]:
        case "bool":
            truth = read_truth(text)
            if truth is None:
                raise ValueError(text)
            return truth
        case "int":
            # Read as a number first: `5e4` steps are a whole number to people.
            number = _finite(text)
            if not number.is_integer():
                raise ValueError(text)
            # A float has 53 bits; a seed or a step count may need more.
            return int(text) if text.lstrip("+-").isdigit() else int(number)
        case "float":
            return _finite(text)
        case "any":
            try:
                value: JsonValue = json.loads(text)
            except ValueError:
                return text
            return value
    return text


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def substitute(value: JsonValue, names: Mapping[str, str]) -> JsonValue:
    """Replace `${RUN_ID}` and its kind everywhere in a document."""
    if isinstance(value, str):
        return re.sub(r"\$\{(\w+)\}", lambda m: names.get(m[1], m[0]), value)
    if isinstance(value, dict):
        return {key: substitute(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [substitute(item, names) for item in value]
    return value
