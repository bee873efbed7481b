"""Values that people type, read with the type an argument declares."""

import json
from typing import Any

TRUE_WORDS = frozenset({"true", "yes", "on", "1"})
FALSE_WORDS = frozenset({"false", "no", "off", "0"})


def convert(text: str, kind: str) -> Any:
    """A typed value of the kind an argument declares, such as `int` or `float | None`.

    Raises:
        ValueError: It is not one.
    """
    kinds = [part.strip() for part in kind.split("|")]
    if "None" in kinds and text.lower() in ("none", "null"):
        return None
    match kinds[0]:
        case "bool":
            if text.lower() not in TRUE_WORDS | FALSE_WORDS:
                raise ValueError(text)
            return text.lower() in TRUE_WORDS
        case "int":
            number = float(text)
            if not number.is_integer():
                raise ValueError(text)
            return int(text) if text.lstrip("+-").isdigit() else int(number)
        case "float":
            return float(text)
        case "any":
            try:
                return json.loads(text)
            except ValueError:
                return text
    return text
